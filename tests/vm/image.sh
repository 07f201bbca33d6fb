#!/usr/bin/env bash
# Makes the disk of the virtual machine: Debian 12 with its kernel and systemd, and a boot's files beside it:
#   image.sh DIR     leaves DIR/{disk.img,vmlinuz,initrd.img}
# The test is no part of it: that comes on a second disk, so that one image serves every build.
# The settings under /etc are those of a machine whose owner tuned other things: reverting must bring them back.
set -euo pipefail
target=${1:?a directory}
tree=$target/tree
# debootstrap mounts /proc below the tree and leaves it there when it fails: in a namespace of our own no mount outlives
# us, and `--one-file-system` never deletes what is mounted.
if [ "${2:-}" != inside ]; then exec unshare --mount -- "$0" "$target" inside; fi
rm -rf --one-file-system "$target"
mkdir -p "$target"
trap 'umount -q -R "$tree/proc" "$tree/sys" || true; rm -rf --one-file-system "$tree"' EXIT

debootstrap --variant=minbase \
    --include=systemd-sysv,udev,kmod,procps,iproute2,python3,initramfs-tools bookworm "$tree"

# Only what the virtual disk needs: the usual initial file system takes software emulation a minute to unpack.
sed -i 's/^MODULES=.*/MODULES=list/' "$tree/etc/initramfs-tools/initramfs.conf"
printf 'virtio_pci\nvirtio_blk\next4\n' >>"$tree/etc/initramfs-tools/modules"
DEBIAN_FRONTEND=noninteractive chroot "$tree" apt-get install --no-install-recommends -y -qq linux-image-amd64

echo tidemill-vm >"$tree/etc/hostname"
echo '/dev/vda / ext4 noatime 0 1' >"$tree/etc/fstab"

# The interface's address is one of documentation's (RFC 5737): nobody answers, and it is up.
cat >"$tree/etc/systemd/network/20-virtio.network" <<'END'
[Match]
Driver=virtio_net
[Network]
Address=192.0.2.2/24
LinkLocalAddressing=no
IPv6AcceptRA=no
END
# A driver that loads late, after network.target: what is set at boot has to wait for it.
echo 'install virtio_net sleep 15; modprobe --ignore-install virtio_net' >"$tree/etc/modprobe.d/late.conf"
# Packets steered onto every CPU, workers' included.
cat >"$tree/etc/udev/rules.d/50-owner.rules" <<'END'
ACTION=="add", SUBSYSTEM=="net", DRIVERS=="virtio_net", ATTR{queues/rx-0/rps_cpus}="ff"
END
cat >"$tree/etc/sysctl.d/10-owner.conf" <<'END'
net.core.somaxconn = 1024
vm.zone_reclaim_mode = 1
END

# On a busy host emulated seconds are long.
mkdir "$tree/etc/systemd/system.conf.d"
cat >"$tree/etc/systemd/system.conf.d/slow.conf" <<'END'
[Manager]
DefaultTimeoutStartSec=15min
DefaultTimeoutStopSec=15min
DefaultDeviceTimeoutSec=15min
END

cat >"$tree/etc/systemd/system/tidemill-vm.service" <<'END'
[Unit]
Description=The test that came on the second disk
After=multi-user.target tidemill-tune.service
ConditionPathExists=/dev/vdb

[Service]
Type=oneshot
ExecStartPre=mkdir -p /opt/vm
ExecStartPre=tar -xf /dev/vdb -C /opt/vm
ExecStart=python3 -u /opt/vm/guest/boot.py
StandardOutput=tty
StandardError=tty
TTYPath=/dev/ttyS0
# A reboot of the test's ends it by a signal; when it cannot even start nobody must wait for the time limit.
ExecStopPost=sh -c '[ "$SERVICE_RESULT" != exit-code ] || { echo "vm: end FAIL $SERVICE_RESULT" >/dev/ttyS0; systemctl poweroff --force; }'
END
mkdir -p "$tree/etc/systemd/system/graphical.target.wants"
ln -s ../tidemill-vm.service "$tree/etc/systemd/system/graphical.target.wants/"
chroot "$tree" systemctl enable --quiet systemd-networkd
# A login prompt would write into the transcript; timers would take the emulated CPUs.
chroot "$tree" systemctl mask --quiet serial-getty@ttyS0.service getty@tty1.service apt-daily.timer \
    apt-daily-upgrade.timer dpkg-db-backup.timer fstrim.timer e2scrub_all.timer e2scrub_reap.service
rm -rf "$tree"/var/cache/apt/archives/*.deb "$tree"/var/lib/apt/lists/* "$tree"/usr/share/{doc,man,locale}

cp "$tree"/boot/vmlinuz-* "$target/vmlinuz"
cp "$tree"/boot/initrd.img-* "$target/initrd.img"
truncate -s 3G "$target/disk.img"
mkfs.ext4 -q -F -d "$tree" "$target/disk.img"
