"""From conditions on sizes to the largest set of sizes that ``torch.export`` can say."""
