"""The graph as a picture: collapsed by module, one small layout for each group."""
