"""A document → a `TrainingJob`: its schema, its defaults, and what breaks them."""
