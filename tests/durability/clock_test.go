package durability

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

// A wall clock of the server's own, by a library that is loaded before the C library.
const clockSource = `
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static volatile long *offset_s;

__attribute__((constructor)) static void map_offset(void) {
	int file = open(getenv("TEST_CLOCK_OFFSET"), O_RDONLY);
	void *page = mmap(NULL, sizeof(long), PROT_READ, MAP_SHARED, file, 0);
	if (page == MAP_FAILED) {
		_exit(1);
	}
	offset_s = page;
	close(file);
}

int clock_gettime(clockid_t clock, struct timespec *time) {
	int result = syscall(SYS_clock_gettime, clock, time);
	int is_wall = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
	if (result == 0 && is_wall && offset_s != NULL) {
		time->tv_sec += *offset_s;
	}
	return result;
}
`

// wallClock is set for one server, beside the machine's.
type wallClock struct {
	library, file string
	offset        time.Duration
}

func newWallClock(t *testing.T) *wallClock {
	t.Helper()
	directory := t.TempDir()
	clock := &wallClock{
		library: filepath.Join(directory, "clock.so"), file: filepath.Join(directory, "offset"),
	}
	source := filepath.Join(directory, "clock.c")
	if err := os.WriteFile(source, []byte(clockSource), 0o600); err != nil {
		t.Fatal(err)
	}
	compiler := exec.Command("cc", "-O1", "-shared", "-fPIC", "-o", clock.library, source)
	if text, err := compiler.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	clock.stepBack(t, 0)
	return clock
}

// stepBack sets the clock back, for a server that runs too.
func (c *wallClock) stepBack(t *testing.T, by time.Duration) {
	t.Helper()
	c.offset -= by
	file, err := os.OpenFile(c.file, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var seconds [8]byte
	binary.NativeEndian.PutUint64(seconds[:], uint64(int64(c.offset/time.Second)))
	if _, err := file.WriteAt(seconds[:], 0); err != nil {
		t.Fatal(err)
	}
}

func (c *wallClock) now() time.Time { return time.Now().Add(c.offset) }

func (c *wallClock) launch(
	t *testing.T, directory string, directives ...string,
) *instance.Server {
	t.Helper()
	wrapper := []string{"env", "LD_PRELOAD=" + c.library, "TEST_CLOCK_OFFSET=" + c.file}
	server, err := instance.LaunchUnder(wrapper, instance.Subject, directory, directives...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Kill)
	return server
}

// expectWall expects a time that the server tells to be the present one of its wall clock.
func (c *wallClock) expectWall(t *testing.T, what string, seconds int64) {
	t.Helper()
	if apart := c.now().Sub(time.Unix(seconds, 0)).Abs(); apart > 20*time.Second {
		t.Errorf("%s is %v apart from the wall clock", what, apart)
	}
}

func number(t *testing.T, conn *wire.Conn, field string) int64 {
	t.Helper()
	value, err := strconv.ParseInt(info(t, conn, field), 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", field, err)
	}
	return value
}

// saveAcrossStep sets the clock back during a save: it ends, and has taken seconds.
func (c *wallClock) saveAcrossStep(t *testing.T, conn *wire.Conn) {
	t.Helper()
	spanBackground(t, conn, "BGSAVE", "rdb_bgsave_in_progress")
	c.stepBack(t, time.Hour)
	time.Sleep(300 * time.Millisecond)
	do(t, conn, "CONFIG", "SET", "rdb-key-save-delay", "0")
	awaitInfo(t, conn, "rdb_bgsave_in_progress", "0")
	if status := info(t, conn, "rdb_last_bgsave_status"); status != "ok" {
		t.Errorf("the save is %s", status)
	}
	if seconds := number(t, conn, "rdb_last_bgsave_time_sec"); seconds < 0 || seconds > 60 {
		t.Errorf("the save took %d s", seconds)
	}
	c.expectWall(t, "LASTSAVE", do(t, conn, "LASTSAVE").Int())
	c.expectWall(t, "rdb_last_save_time", number(t, conn, "rdb_last_save_time"))
}

// rewriteAcrossStep sets the clock back during a rewrite of the log.
func (c *wallClock) rewriteAcrossStep(t *testing.T, conn *wire.Conn) {
	t.Helper()
	spanBackground(t, conn, "BGREWRITEAOF", "aof_rewrite_in_progress")
	c.stepBack(t, 2*time.Hour)
	time.Sleep(300 * time.Millisecond)
	if seconds := number(t, conn, "aof_current_rewrite_time_sec"); seconds > 60 {
		t.Errorf("the rewrite runs for %d s", seconds)
	}
	do(t, conn, "CONFIG", "SET", "rdb-key-save-delay", "0")
	awaitInfo(t, conn, "aof_rewrite_in_progress", "0")
	if status := info(t, conn, "aof_last_bgrewrite_status"); status != "ok" {
		t.Errorf("the rewrite is %s", status)
	}
	if seconds := number(t, conn, "aof_last_rewrite_time_sec"); seconds < 0 || seconds > 60 {
		t.Errorf("the rewrite took %d s", seconds)
	}
}

// expectDueSaves expects the next sync, save point and automatic rewrite to come.
func expectDueSaves(t *testing.T, conn *wire.Conn) {
	t.Helper()
	saves := number(t, conn, "rdb_saves")
	do(t, conn, "SET", "behind", "value")
	if reply := do(t, conn, "WAITAOF", "1", "0", "20000"); len(reply.Items) != 2 ||
		reply.Items[0].Int() != 1 {
		t.Errorf("the sync of each second: %s", reply)
	}
	await(t, "the save point is due", func() bool { return number(t, conn, "rdb_saves") > saves })
	rewrites := number(t, conn, "aof_rewrites")
	do(t, conn, "CONFIG", "SET", "auto-aof-rewrite-percentage", "1")
	for index := range 200 {
		do(t, conn, "SET", "more:"+strconv.Itoa(index), "value")
	}
	await(t, "the automatic rewrite", func() bool {
		return number(t, conn, "aof_rewrites") > rewrites
	})
	do(t, conn, "CONFIG", "SET", "auto-aof-rewrite-percentage", "0")
	awaitInfo(t, conn, "aof_rewrite_in_progress", "0")
}

// The wall clock is set back during a save, a rewrite of the log, and behind a save that failed:
// they end and have taken seconds, times are those of the clock as it goes, the next save point,
// sync and rewrite come, and a start that is earlier than the files finds all keys.
func TestClock_SetBackDuringSaveAndRewrite(t *testing.T) {
	directory := t.TempDir()
	clock := newWallClock(t)
	directives := []string{"--appendonly", "yes", "--appendfsync", "everysec", "--save", "2 1",
		"--enable-debug-command", "yes", "--aof-timestamp-enabled", "yes",
		"--auto-aof-rewrite-percentage", "0", "--auto-aof-rewrite-min-size", "1"}
	server := clock.launch(t, directory, directives...)
	conn := server.Dial(t)
	conn.Timeout = time.Minute
	clock.expectWall(t, "the start's LASTSAVE", do(t, conn, "LASTSAVE").Int())
	do(t, conn, "SET", "expiring", "value", "EX", "600")
	clock.saveAcrossStep(t, conn)
	clock.rewriteAcrossStep(t, conn)
	expectDueSaves(t, conn)

	// A save that failed is tried again within seconds.
	do(t, conn, "DEBUG", "DISK-FAULT", "WRITE")
	do(t, conn, "CONFIG", "SET", "appendonly", "no")
	do(t, conn, "SET", "unsaved", "value")
	if status := saveInBackground(t, conn); status != "err" {
		t.Errorf("a save with a broken disk is %s", status)
	}
	clock.stepBack(t, 24*time.Hour)
	do(t, conn, "DEBUG", "DISK-FAULT", "NONE")
	awaitInfo(t, conn, "rdb_last_bgsave_status", "ok")
	do(t, conn, "CONFIG", "SET", "appendonly", "yes")
	awaitInfo(t, conn, "aof_rewrite_in_progress", "0")
	if ttl := do(t, conn, "TTL", "expiring").Int(); ttl < 400 || ttl > 600 {
		t.Errorf("a key of ten minutes has %d s left", ttl)
	}
	keys := do(t, conn, "DBSIZE").Int()
	server.Kill()

	clock.stepBack(t, time.Hour)
	conn = clock.launch(t, directory, directives...).Dial(t)
	if found := do(t, conn, "DBSIZE").Int(); found != keys {
		t.Errorf("%d keys, there were %d", found, keys)
	}
	saves := number(t, conn, "rdb_saves")
	do(t, conn, "SET", "last", "value")
	await(t, "the save point is due", func() bool { return number(t, conn, "rdb_saves") > saves })
	clock.expectWall(t, "LASTSAVE", do(t, conn, "LASTSAVE").Int())
}
