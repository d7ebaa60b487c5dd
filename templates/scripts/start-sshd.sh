#!/bin/sh
# Starts sshd in a worker with the configuration of setup-ssh.sh. sshd starts its sessions without
# the variables of the container, so they are saved here, and ssh-session.sh reads them.
#
#   MLGEN_SSH_FOLDER  the folder that setup-ssh.sh has filled; not set: /mlgen/ssh-auth
set -eu
folder=${MLGEN_SSH_FOLDER:-/mlgen/ssh-auth}
(umask 077 && export -p >"$folder/environment")
# As root, sshd requires this folder, which many images create only when systemd starts.
[ -d /run/sshd ] || mkdir -p /run/sshd 2>/dev/null || :
exec /usr/sbin/sshd -De -f "$folder/sshd_config"
