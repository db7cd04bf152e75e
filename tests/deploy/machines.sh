#!/bin/bash
# A network of machines that are processes: machines.sh FOLDER VENV PYTHON_PREFIX ADDRESS...
#
# Runs as the first process of namespaces of its own (see machines.py). Each machine gets an address, an ssh server, a
# home, a /tmp and a /dev/shm of its own, and sees no process but its own: `ray stop`, which ends whatever looks like
# Ray, ends nothing outside of it. All is gone when this process is.
set -eu

folder=$1 venv=$2 python_prefix=$3
shift 3
repository=$(pwd)

# Puts a directory in the place of another; what the machines need of the other is there all the same.
replace() {
    local place=$1 replacement=$2 kept
    mkdir -p "$replacement"
    for kept in "$repository" "$folder" "$venv" "$python_prefix"; do
        case $kept in
            "$place"/*)
                mkdir -p "$replacement/${kept#"$place"/}"
                mount --rbind "$kept" "$replacement/${kept#"$place"/}"
                ;;
        esac
    done
    mount --rbind "$replacement" "$place"
}

own_directories() {
    local own=$1
    mount -t tmpfs -o mode=1777 tmpfs /dev/shm
    mount -t tmpfs -o mode=755 tmpfs /run
    replace /tmp "$own/tmp"
    chmod 1777 /tmp
    replace "$HOME" "$own/home"
    # There is nobody to ask for names, and whoever asks waits until he gives up.
    echo 'hosts: files' >"$own/nsswitch.conf"
    mount --bind "$own/nsswitch.conf" /etc/nsswitch.conf
    cd "$repository"
}

# The machines come with a virtual environment that has everything but this package, because nothing can be downloaded
# here. It lies where it was made, since the programs in it name that place.
fill_venv() {
    local layers
    layers=$(mktemp -d)
    mount -t tmpfs tmpfs "$layers"
    mkdir "$layers/upper" "$layers/work"
    mount -t overlay -o "lowerdir=$venv,upperdir=$layers/upper,workdir=$layers/work" overlay "$venv"
    "$venv/bin/python" -m pip uninstall --quiet --yes --root-user-action=ignore eagleray
    mkdir ~/eagleray
    ln -s "$venv" ~/eagleray/venv
}

machine() {
    local own=$folder/$1
    hostname "$1"
    own_directories "$own"
    fill_venv
    mkdir -p ~/.ssh /run/sshd
    cp "$folder/key.pub" ~/.ssh/authorized_keys
    # All of them share the processors of one, with the other tests: Ray takes its time to start.
    cat >~/.bashrc <<SETTINGS
export PATH="$python_prefix/bin:$JAVA_HOME/bin:\$PATH" JAVA_HOME="$JAVA_HOME"
export PIP_NO_INDEX=1 PIP_DISABLE_PIP_VERSION_CHECK=1
export RAY_agent_register_timeout_ms=120000 RAY_raylet_start_wait_time_s=180
SETTINGS
    until ip link show eth0 >/dev/null 2>&1; do sleep 0.05; done
    ip link set lo up
    ip address add "$1/24" dev eth0
    ip link set eth0 up
    # Ray learns its own address by asking for the way out.
    ip route add default via "${1%.*}.1"
    /usr/sbin/sshd -D -e -f "$folder/sshd_config" &
    # The first process inherits those that Ray leaves to themselves; a shell that waits takes note of their ends.
    wait
}

network() {
    local address number=0 pid
    ip link set lo up
    ip link add bridge0 type bridge
    ip address add "${1%.*}.1/24" dev bridge0
    ip link set bridge0 up
    for address in "$@"; do
        number=$((number + 1))
        unshare --mount --pid --net --ipc --uts --fork --kill-child --mount-proc \
            "$0" "$folder" "$venv" "$python_prefix" --machine "$address" \
            >"$folder/$address.log" 2>&1 &
        pid=$!
        until [ "$(readlink "/proc/$pid/ns/net")" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.05; done
        ip link add "machine$number" type veth peer name eth0 netns "$pid"
        ip link set "machine$number" master bridge0 up
    done
    own_directories "$folder/launcher"
    echo ready
    wait
}

if [ "$1" = --machine ]; then machine "$2"; else network "$@"; fi
