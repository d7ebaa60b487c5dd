"""A rendered job and kubectl → the job's state, its logs, its end, its deletion, a check-up.

Nothing here is part of rendering: it reads what runs, with the rights of the person who asks.
"""
