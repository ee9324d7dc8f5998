"""Between a plan and the user's own ``dynamic_shapes``: reading, code, objects, example inputs."""
