#!/bin/sh
# Creates the files of ssh and sshd. Copies the keys instead of mounting them, because ssh rejects a
# private key that others can read, and only the owner of a file can change its mode.
#
# The main container mounts `config` as /etc/ssh/ssh_config, which ssh reads for every user, and
# `passwd` as /etc/passwd if the job or the cluster sets a user: ssh and sshd reject users without
# an entry.
#
#   MLGEN_SSH_FOLDER    the folder of the files
#   MLGEN_SSH_ATTEMPTS  attempts of ssh to connect, one per second
#   MLGEN_SSH_PORT      port on which ssh connects to the workers; not set: the port in the image's
#                       ssh configuration
#   MLGEN_SSHD_PORT     port of an sshd that reads the sshd_config of this folder
#   MLGEN_SSH_HOSTS     pattern of the hosts that run this sshd; not set: the image provides the
#                       host keys of the workers
set -eu
umask 077
cd "$MLGEN_SSH_FOLDER"
cat /mlgen/ssh/id_rsa >id_rsa
cat /mlgen/ssh/id_rsa.pub >id_rsa.pub
cat /mlgen/ssh/id_rsa.pub >authorized_keys

# The sshd_config below uses the job's own key as the host key, so ssh accepts this key.
: >known_hosts
while read -r key || [ -n "$key" ]; do
  printf '* %s\n' "$key" >>known_hosts
done <id_rsa.pub
: >config
if [ -n "${MLGEN_SSH_HOSTS-}" ]; then
  cat >>config <<EOF
Host $MLGEN_SSH_HOSTS
  StrictHostKeyChecking yes
  GlobalKnownHostsFile $MLGEN_SSH_FOLDER/known_hosts
EOF
fi
cat >>config <<EOF
Host *
${MLGEN_SSH_PORT:+  Port $MLGEN_SSH_PORT}
  ConnectionAttempts $MLGEN_SSH_ATTEMPTS
  IdentityFile $MLGEN_SSH_FOLDER/id_rsa
  StrictHostKeyChecking no
  UserKnownHostsFile /dev/null
  LogLevel ERROR
EOF
# The image's own settings apply to all other options.
if [ -r /etc/ssh/ssh_config ]; then cat /etc/ssh/ssh_config >>config; fi

# CRI-O adds an entry for a user that the cluster assigns, with a shell that sshd cannot run.
uid=$(id -u)
own="^[^:]*:[^:]*:$uid:"
cat /etc/passwd >passwd
if ! grep "$own" passwd | grep -qv '/nologin$'; then
  grep -v "$own" /etc/passwd >passwd || :
  echo "mlgen:x:$uid:$(id -g)::/:/bin/sh" >>passwd
fi
chmod 644 config passwd

# Works in a pod under PodSecurity "restricted": no root, no PAM, no files outside this folder.
cat >sshd_config <<EOF
Port ${MLGEN_SSHD_PORT:-2222}
HostKey $MLGEN_SSH_FOLDER/id_rsa
AuthorizedKeysFile $MLGEN_SSH_FOLDER/authorized_keys
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
ForceCommand sh /etc/mpi/ssh-session.sh $MLGEN_SSH_FOLDER
EOF
