#!/usr/bin/env bash
# What a host does at every boot before bootstrap.sh takes over: it makes this start's files services, and starts them.
#
# A change on the host is undone. The services are not enabled: after a reboot nothing trains before this has run, else
# a host would begin with the bundle of its boot before. Reads only exported variables:
#   SLIPWAY_FILES                        a directory with the other files of this start; removed
#   SLIPWAY_ARTIFACTS, SLIPWAY_BUNDLE, SLIPWAY_WANTED, SLIPWAY_SECRETS    as bootstrap.sh does
#   SLIPWAY_DATA_DISK                    the label of a file system with prepared text, to mount; default: none
#   SLIPWAY_DATA_MOUNT                   gs://bucket[/folder] with prepared text, to mount; default: none
#   SLIPWAY_MOUNT_PROGRAM                SHA-256 of the program that does it
#   SLIPWAY_STACK                        the name under which Cloud Logging shows the host's log
#   SLIPWAY_HOME, SLIPWAY_UNITS          defaults: /var/lib/slipway, /etc/systemd/system
#   SLIPWAY_HUGE_PAGES                   default: the kernel's switch for transparent huge pages
set -euo pipefail

home=${SLIPWAY_HOME:-/var/lib/slipway}
units=${SLIPWAY_UNITS:-/etc/systemd/system}
huge_pages=${SLIPWAY_HUGE_PAGES:-/sys/kernel/mm/transparent_hugepage/enabled}
changed=

put() { # file; takes its text from stdin
  cat >"$1.new"
  if cmp -s "$1.new" "$1"; then
    rm "$1.new"
  else
    mv "$1.new" "$1"
    changed=1
  fi
}

# The account that trains: programs are root's, so that it cannot change what root runs.
mkdir -p "$home/programs" "$home/host" "$home/cache" "$home/software"
id slipway >/dev/null 2>&1 || useradd --system --home-dir "$home/host" --shell /usr/sbin/nologin slipway
chown -R slipway: "$home/host" "$home/cache" "$home/software"

for file in "$SLIPWAY_FILES"/*; do
  put "$home/programs/${file##*/}" <"$file"
done
rm -r "$SLIPWAY_FILES"
rm -f "$home/host/chosen-bundle" # each boot asks anew which bundle it is

# Text on a disk that all hosts share, found by its label whatever device it is. Without it the training says what it lacks.
if [[ -n "${SLIPWAY_DATA_DISK:-}" ]]; then
  mkdir -p "$home/data-disk"
  mountpoint -q "$home/data-disk" || mount -o ro "LABEL=$SLIPWAY_DATA_DISK" "$home/data-disk" ||
    echo "startup: no disk with a file system labelled $SLIPWAY_DATA_DISK could be mounted" >&2
fi

# What bootstrap.sh and the services read. Secrets are here by name; their values are read at each start, never written.
put "$home/programs/variables.sh" <<END
export SLIPWAY_STACK=$(printf '%q' "$SLIPWAY_STACK")
export SLIPWAY_ARTIFACTS=$(printf '%q' "$SLIPWAY_ARTIFACTS")
export SLIPWAY_BUNDLE=$(printf '%q' "$SLIPWAY_BUNDLE")
export SLIPWAY_WANTED=$(printf '%q' "${SLIPWAY_WANTED:-}")
export SLIPWAY_SECRETS=$(printf '%q' "${SLIPWAY_SECRETS:-}")
export SLIPWAY_DATA_MOUNT=$(printf '%q' "${SLIPWAY_DATA_MOUNT:-}")
export SLIPWAY_MOUNT_PROGRAM=$(printf '%q' "${SLIPWAY_MOUNT_PROGRAM:-}")
export SLIPWAY_ROOT=$(printf '%q' "$home/software")
export SLIPWAY_HOST_DIR=$(printf '%q' "$home/host")
export SLIPWAY_CACHE_DIR=$(printf '%q' "$home/cache")
export SLIPWAY_START_AGAIN=1
END

word() { # text, as one word of a unit's setting
  local backslash=\\ text=$1
  text=${text//"$backslash"/"$backslash$backslash"}
  text=${text//\"/"$backslash\""}
  printf '"%s"' "${text//%/%%}"
}

argument() { # text, as one word of a unit's command, in which $ means something too
  # shellcheck disable=SC2016
  local dollars='$$'
  word "${1//\$/"$dollars"}"
}

unit() { # name, what it runs, when again, as whom; more lines of its section from stdin
  put "$units/$1.service" <<END
[Unit]
Description=Slipway: $1
After=network-online.target
Wants=network-online.target
StartLimitIntervalSec=0

[Service]
ExecStart=/bin/bash $(argument "$home/programs/$2")
Restart=$3
RestartSec=15
User=$4
Environment=$(word "HOME=$home/host")
$(cat)
END
}

# 2: what the host was given cannot work; 3: the same error came again (training/exit_codes.py). No start changes that.
# A checkpoint is saved before the end. A journal of its own is bounded, and is not copied into /var/log/syslog.
unit slipway train.sh on-failure slipway <<END
ExecStartPre=+/bin/bash $(argument "$home/programs/devices.sh")
RestartPreventExitStatus=2 3
TimeoutStopSec=600
KillMode=mixed
LimitNOFILE=1048576
LimitMEMLOCK=infinity
LogNamespace=slipway
END
unit slipway-report report.sh always slipway </dev/null
unit slipway-logs logs.sh always root </dev/null
services=(slipway-logs.service slipway-report.service slipway.service)
if [[ -n "${SLIPWAY_DATA_MOUNT:-}" ]]; then
  unit slipway-data mount.sh always root </dev/null
  services=(slipway-data.service "${services[@]}")
elif [[ -f "$units/slipway-data.service" ]]; then # of a boot before
  systemctl stop slipway-data.service
fi

mkdir -p "$(dirname "$units")"
put "$(dirname "$units")/journald@slipway.conf" <<'END'
[Journal]
SystemMaxUse=1G
END

# JAX asks for it on v5e and newer: the TPU's runtime starts and ends faster.
if [[ -w "$huge_pages" ]]; then echo always >"$huge_pages"; fi

systemctl daemon-reload
systemctl disable slipway.service slipway-report.service 2>/dev/null || true # 0.1.0 had enabled them
if [[ -n "$changed" ]]; then
  systemctl restart "${services[@]}"
else
  systemctl start "${services[@]}"
fi
