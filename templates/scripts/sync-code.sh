#!/bin/sh
# Checks out one revision of a Git repository. Replaces the revision of an earlier run.
#
#   MLGEN_REPOSITORY  URL of the repository
#   MLGEN_REVISION    branch, tag or commit; HEAD is the default branch
#   MLGEN_FOLDER      target directory
#   MLGEN_TIMEOUT     seconds to keep trying
#   MLGEN_SUBMODULES  if set, also clone the submodules
#   MLGEN_LFS         if set, also download the files in Git LFS
#
# Reads credentials from /mlgen/git if a Secret is mounted there: ssh-privatekey and known_hosts, or
# username and password, which only the host of the repository gets. Exits with 75 (EX_TEMPFAIL in
# sysexits.h) on timeout.
set -u
keys=/mlgen/git

# git rejects a directory that another user owns, such as the volume. The transport
# "ext" runs the command in a URL.
# Git LFS files stay pointer files until the last step, whatever the image configures.
export GIT_CONFIG_COUNT=3 GIT_TERMINAL_PROMPT=0 GIT_LFS_SKIP_SMUDGE=1
export GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*'
export GIT_CONFIG_KEY_1=protocol.ext.allow GIT_CONFIG_VALUE_1=never
export GIT_CONFIG_KEY_2=credential.helper GIT_CONFIG_VALUE_2=''
if [ -f "$keys/password" ]; then
  # The repository may redirect to other hosts, and name them for submodules and Git LFS.
  authority=${MLGEN_REPOSITORY#*://}
  authority=${authority%%/*}
  authority=${authority##*@}
  names="printf 'username=%s\npassword=%s\n'"
  helper="!$names \"\$(cat $keys/username)\" \"\$(cat $keys/password)\"; :"
  export GIT_CONFIG_COUNT=5 GIT_CONFIG_VALUE_3="$helper" GIT_CONFIG_VALUE_4="$helper"
  export GIT_CONFIG_KEY_3="credential.${MLGEN_REPOSITORY%%://*}://$authority.helper"
  export GIT_CONFIG_KEY_4="credential.https://$authority.helper"  # http may redirect to it
fi
if [ -f "$keys/ssh-privatekey" ]; then
  check="-o StrictHostKeyChecking=yes -o UserKnownHostsFile=$keys/known_hosts"
  if [ ! -f "$keys/known_hosts" ]; then
    echo "warning: the host key of the Git server is not checked; add known_hosts to the Secret" >&2
    check='-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null'
  fi
  export GIT_SSH_COMMAND="ssh -i $keys/ssh-privatekey -o IdentitiesOnly=yes $check"
fi

cd "$MLGEN_FOLDER" || exit
# Init containers run again when the node restarts. By then, the training container, which
# does not have the keys, may have written hooks and a configuration. So this keeps only the index
# of the earlier run, which lists the files to replace.
index=.mlgen-index
rm -rf "$index" || exit
[ ! -f .git/index ] || mv .git/index "$index" || exit
rm -rf .git || exit
git init -q . || exit
[ ! -f "$index" ] || mv "$index" .git/index || exit
# Submodules with relative URLs, and Git LFS, look for the URL here.
git config remote.origin.url "$MLGEN_REPOSITORY" || exit
deadline=$(($(date +%s) + MLGEN_TIMEOUT)) pause=1
attempt() {  # NAME COMMAND...: repeats it until it succeeds or the time is over
  what=$1
  shift
  while :; do
    left=$((deadline - $(date +%s)))
    if [ "$left" -le 0 ]; then
      echo "timed out after ${MLGEN_TIMEOUT}s fetching $what from $MLGEN_REPOSITORY" >&2
      exit 75
    fi
    timeout "$left" "$@" && break
    sleep "$pause"
    [ "$pause" -ge 5 ] || pause=$((pause + 1))
  done
}
attempt "$MLGEN_REVISION" git fetch -q --depth 1 -- "$MLGEN_REPOSITORY" "$MLGEN_REVISION"
git checkout -q --force --detach FETCH_HEAD || exit
if [ -n "${MLGEN_SUBMODULES-}" ]; then
  # The training container may have replaced a submodule of an earlier run, too.
  git ls-files --stage | sed -n 's/^160000 [0-9a-f]* 0.//p' | while read -r path; do rm -rf "$path"; done
  attempt submodules git submodule --quiet update --init --recursive --force --depth 1
fi
if [ -n "${MLGEN_LFS-}" ]; then
  command -v git-lfs >/dev/null || {
    echo "git-lfs not found; set spec.helpers.gitImage to an image that includes git-lfs" >&2
    exit 127
  }
  attempt "Git LFS files" git lfs pull origin
  [ -z "${MLGEN_SUBMODULES-}" ] || git submodule --quiet foreach --recursive "git lfs pull" || exit
fi
git log -1 --format='%H %s'
