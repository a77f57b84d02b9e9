#!/usr/bin/env bash
# The service that sends the training's log to Cloud Logging, as log `slipway`, with this host's own token.
#
# Entries go in batches, each with its number in the journal as insertId: what is sent twice is shown once. What the
# journal dropped meanwhile (it is bounded) is not sent.
#   GCE_METADATA_HOST           default: metadata.google.internal
#   SLIPWAY_LOGGING_ENDPOINT    default: https://logging.googleapis.com
#   SLIPWAY_LOGS_S              how long an entry waits for more; default: 5
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=/dev/null
source "$here/variables.sh"
metadata=http://${GCE_METADATA_HOST:-metadata.google.internal}/computeMetadata/v1
endpoint=${SLIPWAY_LOGGING_ENDPOINT:-https://logging.googleapis.com}
wait_s=${SLIPWAY_LOGS_S:-5}
sent=$here/logs.cursor # of the last entry that has been sent
most=500               # entries of a batch

ask() { curl -fsS --retry 8 --retry-connrefused --max-time 60 -H 'Metadata-Flavor: Google' "$metadata/$1"; }

project=$(ask project/project-id)
zone=$(ask instance/zone)
host=$(ask instance/name)
about="\"logName\": \"projects/$project/logs/slipway\", \"partialSuccess\": true, \"resource\": {\"type\": \"generic_node\",
  \"labels\": {\"location\": \"${zone##*/}\", \"namespace\": \"$SLIPWAY_STACK\", \"node_id\": \"$host\"}}"

entry() { # line of journalctl's JSON; sets $cursor, and adds to $entries
  local seconds=0 micros=000000 at id
  if [[ "$1" =~ \"__REALTIME_TIMESTAMP\"\ ?:\ ?\"([0-9]+)([0-9]{6})\" ]]; then
    seconds=${BASH_REMATCH[1]} micros=${BASH_REMATCH[2]}
  fi
  [[ "$1" =~ \"__CURSOR\"\ ?:\ ?\"(s=([0-9a-f]+)\;i=([0-9a-f]+)[^\"]*)\" ]] || return 0
  cursor=${BASH_REMATCH[1]} id=${BASH_REMATCH[2]}-${BASH_REMATCH[3]}
  TZ=UTC printf -v at '%(%Y-%m-%dT%H:%M:%S)T.%sZ' "$seconds" "$micros"
  entries+="${entries:+,}{\"timestamp\": \"$at\", \"insertId\": \"$id\", \"jsonPayload\": ${1/\"MESSAGE\"/\"message\"}}"
  count=$((count + 1))
}

send() { # what has been gathered, until it has been taken; what Google calls wrong is said here and dropped
  local answer code token
  while [[ -n "$entries" ]]; do
    token=$(ask instance/service-accounts/default/token | sed -n 's/.*"access_token" *: *"\([^"]*\)".*/\1/p') || token=
    answer=$(curl -sS --max-time 60 -H 'Content-Type: application/json' -H @<(printf 'Authorization: Bearer %s' "$token") \
      --data-binary @<(printf '{%s, "entries": [%s]}' "$about" "$entries") --write-out '\n%{http_code}' \
      "$endpoint/v2/entries:write") || answer=$'\n000'
    code=${answer##*$'\n'}
    if [[ "$code" == 200 ]]; then break; fi
    printf 'logs: Cloud Logging answers %s: %s\n' "$code" "${answer:0:400}" >&2
    if [[ "$code" == 403 ]]; then
      printf "logs: this host's account needs roles/logging.logWriter on project %s\n" "$project" >&2
    fi
    if [[ "$code" == 400 || "$code" == 413 ]]; then break; fi
    sleep "$wait_s"
  done
  entries=
  count=0
  printf '%s' "$cursor" >"$sent"
}

entries=
cursor=
count=0
began=$SECONDS
part= # of a line that is not whole yet
after=()
if [[ -s "$sent" ]]; then after=(--after-cursor="$(<"$sent")"); fi
while true; do
  if IFS= read -r -t "$wait_s" line; then
    entry "$part$line"
    part=
    if ((count < most && SECONDS - began < wait_s)); then continue; fi
  elif (($? > 128)); then # nothing came for a while
    part+=$line
  else # the journal has ended
    if [[ -n "$entries" ]]; then send; fi
    exit 1
  fi
  if [[ -n "$entries" ]]; then send; fi
  began=$SECONDS
done < <(exec journalctl --namespace=slipway --follow --lines=all --all --output=json --output-fields=MESSAGE,PRIORITY "${after[@]}")
