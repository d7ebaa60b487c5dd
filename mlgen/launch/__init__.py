"""How the programs of a job are started: command lines, and the rules about them.

`line` parses the command line of a container once. `role` adds what a role of the job has: its
variables, and the values of the framework. The other modules contain the rules.
"""
