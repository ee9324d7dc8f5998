"""From conditions to sizes that ``torch.export`` can say."""
