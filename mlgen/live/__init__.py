"""Commands that use kubectl: `status`, `wait`, `logs`, `delete` and `doctor`.

Rendering does not need this package. kubectl runs with the user's own permissions.
"""
