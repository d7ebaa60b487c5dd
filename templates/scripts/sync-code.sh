#!/bin/sh
# Brings one revision of a Git repository into a folder, also into one that has another already.
#
#   MLGEN_REPOSITORY  its address
#   MLGEN_REVISION    a branch, a tag or a commit; HEAD is the default branch
#   MLGEN_FOLDER      the folder
#   MLGEN_TIMEOUT     seconds
#
# /mlgen/git may hold a Secret's keys: ssh-privatekey and known_hosts, or username and password.
# Ends with 75 (try again later, as sysexits.h has it) when time is up.
set -u
keys=/mlgen/git

# The folder is the pod's, not of the user that runs git, which git would not trust.
export GIT_CONFIG_COUNT=2 GIT_TERMINAL_PROMPT=0
export GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*'
export GIT_CONFIG_KEY_1=credential.helper GIT_CONFIG_VALUE_1=''
if [ -f "$keys/password" ]; then
  export GIT_CONFIG_VALUE_1="!echo username=\$(cat $keys/username); echo password=\$(cat $keys/password); :"
fi
if [ -f "$keys/ssh-privatekey" ]; then
  check='-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null'
  [ ! -f "$keys/known_hosts" ] || check="-o UserKnownHostsFile=$keys/known_hosts"
  export GIT_SSH_COMMAND="ssh -i $keys/ssh-privatekey -o IdentitiesOnly=yes $check"
fi

cd "$MLGEN_FOLDER" || exit
git init -q . || exit
deadline=$(($(date +%s) + MLGEN_TIMEOUT)) pause=1
while :; do
  left=$((deadline - $(date +%s)))
  if [ "$left" -le 0 ]; then
    echo "gave up after $MLGEN_TIMEOUT s; no answer from $MLGEN_REPOSITORY for $MLGEN_REVISION" >&2
    exit 75
  fi
  timeout "$left" git fetch -q --depth 1 "$MLGEN_REPOSITORY" "$MLGEN_REVISION" && break
  sleep "$pause"
  [ "$pause" -ge 5 ] || pause=$((pause + 1))
done
git checkout -q --force --detach FETCH_HEAD || exit
git log -1 --format='%H %s'
