# Trains for STEPS steps, in step with PEERS, and writes each step and a checkpoint to /data.
# FAILS is "HOST STEP CODE once" or "HOST STEP CODE always".
trap 'exit 143' TERM
host=$(hostname)
attempt=$(cat /proc/sys/kernel/random/uuid)
read -r fails at code when <<END
$FAILS
END

checkpoint() { cat "/data/checkpoint-$1" 2>/dev/null || echo 0; }

step=$(checkpoint "$host")
[ "$when" = once ] && [ -e /data/failed ] && fails=
while [ "$step" -lt "$STEPS" ]; do
  for peer in $PEERS; do
    until [ "$(checkpoint "$peer")" -ge "$step" ]; do sleep 0.2 & wait $!; done
  done
  sleep 0.5 & wait $!
  $STEP_COMMAND || exit 1
  step=$((step + 1))
  if [ "$host" = "$fails" ] && [ "$step" -ge "$at" ]; then
    [ ! -e /data/failed ] || touch /data/last
    touch /data/failed
    exit "$code"
  fi
  [ "$step" -lt "$STEPS" ] || touch /data/last
  echo "$attempt $step" >>"/data/steps-$host"
  echo "$step" >"/data/next-$host"
  mv "/data/next-$host" "/data/checkpoint-$host"
done
