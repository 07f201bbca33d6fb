#!/bin/bash
# install.sh PACKAGE DIRECTORY: installs, upgrades, removes and purges the package with dpkg, in a layer over this host's files that
# nobody else sees and that is gone afterwards. To be run as root in a mount namespace of its own. Prints what it found; the
# services of the host are out of reach: /run is empty there.
set -euo pipefail
package=$1 layer=$2
mount -t tmpfs tmpfs "$layer"
mkdir "$layer/upper" "$layer/work" "$layer/root"
root=$layer/root
mount -t overlay overlay -o "lowerdir=/,upperdir=$layer/upper,workdir=$layer/work" "$root"
mount -t tmpfs tmpfs "$root/run"
cp "$package" "$root/root/tidemill.deb"
config=$root/etc/tidemill/tidemill.conf

check() { # check CLAIM COMMAND...
    local claim=$1; shift
    if "$@" >/dev/null 2>&1; then echo "ok: $claim"; else echo "WRONG: $claim"; fi
}
not() { ! "$@"; }
as() { chroot "$root" setpriv --reuid "$1" --regid "$1" --clear-groups "${@:2}"; }

chroot "$root" dpkg --install /root/tidemill.deb
check "the server has a user of its own without a shell" grep -q '^tidemill:.*:/usr/sbin/nologin$' "$root/etc/passwd"
check "the binary runs" chroot "$root" /usr/bin/tidemill --version
check "the user reads and replaces the configuration" as tidemill sh -c 'sed -i s/^/#/ /etc/tidemill/tidemill.conf'
check "others do not read it" not as nobody cat /etc/tidemill/tidemill.conf
check "no service was enabled" not compgen -G "$root/etc/systemd/system/*/tidemill.service"
echo '# mine' >>"$config"
chroot "$root" dpkg --install /root/tidemill.deb
check "an upgrade keeps a configuration that was changed" grep -qx '# mine' "$config"
check "the user still reads it" as tidemill cat /etc/tidemill/tidemill.conf
chroot "$root" dpkg --remove tidemill
check "the binary goes with the package" not test -e "$root/usr/bin/tidemill"
check "the configuration stays" test -e "$config"
chroot "$root" dpkg --purge tidemill
check "purging takes the configuration" not test -e "$root/etc/tidemill"
echo "all steps done"
