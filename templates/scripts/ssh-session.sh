#!/bin/sh
# Runs the command of an ssh session with the variables of the container, as `kubectl exec` does.
# The command itself may set others, which then apply.
#
#   $1                    the folder that setup-ssh.sh has filled. If the worker did not start sshd
#                         with start-sshd.sh, it does not contain the variables
#   SSH_ORIGINAL_COMMAND  the command; not set: start a shell
#   SHELL                 the user's shell
set -- "$1/environment" "${SHELL:-/bin/sh}" "${SSH_ORIGINAL_COMMAND-}"
# shellcheck disable=SC1090  # written by start-sshd.sh
[ ! -r "$1" ] || . "$1"
# Without SHLVL, bash reads ~/.bashrc again, where images add to PATH.
unset SHLVL SSH_ORIGINAL_COMMAND
[ -n "$3" ] || exec "$2"
exec "$2" -c "$3"
