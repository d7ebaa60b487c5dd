#!/bin/sh
# Lays out the .ssh folder of the user that runs the image. The keys are copied, not mounted: ssh
# refuses a private key that others may read, and only its own user can make it so.
#
#   MLGEN_SSH_FOLDER  the folder
#   MLGEN_SSH_PORT    where ssh finds the sshd of a worker
#   MLGEN_SSHD_PORT   where the sshd of this one listens
set -eu
umask 077
cd "$MLGEN_SSH_FOLDER"
cat /mlgen/ssh/id_rsa >id_rsa
cat /mlgen/ssh/id_rsa.pub >id_rsa.pub
cat /mlgen/ssh/id_rsa.pub >authorized_keys

# The keys are the job's own, so that a host's identity is known by them, not by its name.
cat >config <<EOF
Host *
  Port $MLGEN_SSH_PORT
  IdentityFile $MLGEN_SSH_FOLDER/id_rsa
  StrictHostKeyChecking no
  UserKnownHostsFile /dev/null
  LogLevel ERROR
EOF

# No root, no PAM, no files outside of this folder: what a pod under PodSecurity "restricted" has.
cat >sshd_config <<EOF
Port $MLGEN_SSHD_PORT
HostKey $MLGEN_SSH_FOLDER/id_rsa
AuthorizedKeysFile $MLGEN_SSH_FOLDER/authorized_keys
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
EOF
