"""How the rows of a manifest are divided: into splits or folds, by chance, by class, by time."""
