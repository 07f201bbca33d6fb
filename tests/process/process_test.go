package process

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

// startToEnd runs a server that is to end by itself, and returns what it printed.
func startToEnd(t *testing.T, directives ...string) (string, error) {
	t.Helper()
	_, output, err := runToEndAnywhere(t, instance.Subject, directives...)
	return output, err
}

// runToEndAnywhere runs a server to the end of its first process, and returns its port and what it
// printed. It is run on another port when another process was faster to take that one.
func runToEndAnywhere(
	t *testing.T, kind instance.Kind, directives ...string,
) (port int, output string, err error) {
	t.Helper()
	for range 5 {
		port = freePort(t)
		output, err = runToEnd(t, instance.Command(kind, port, directives...))
		if !strings.Contains(output, fmt.Sprintf(":%d: bind: Address already in use", port)) {
			break
		}
	}
	return port, output, err
}

func runToEnd(t *testing.T, command *exec.Cmd) (string, error) {
	t.Helper()
	var output strings.Builder
	command.Dir, command.Stdout, command.Stderr = t.TempDir(), &output, &output
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	overdue := time.AfterFunc(closeTimeout, func() { _ = command.Process.Kill() })
	defer overdue.Stop()
	err := command.Wait()
	return output.String(), err
}

func TestPort_TakenByAnotherServer(t *testing.T) {
	server := instance.Start(t, instance.Subject)
	output, err := runToEnd(t, instance.Command(instance.Subject, server.Port))
	if err == nil || !strings.Contains(output, "bind: Address already in use") {
		t.Errorf("%v:\n%s", err, output)
	}
	if !strings.Contains(output, fmt.Sprintf("Failed listening on port %d (tcp), aborting.",
		server.Port)) {
		t.Error(output)
	}
}

// A port in use is reported in the terminal also with --daemonize: the port is bound before the
// server leaves it.
func TestPort_TakenIsToldBeforeTheServerLeavesTheTerminal(t *testing.T) {
	server := instance.Start(t, instance.Subject)
	for _, log := range []string{"", "own.log"} {
		command := instance.Command(instance.Subject, server.Port, "--daemonize", "yes",
			"--logfile", log, "--databases", "16")
		output, err := runToEnd(t, command)
		if err == nil ||
			!strings.Contains(output, fmt.Sprintf("Failed listening on port %d (tcp), aborting.",
				server.Port)) {
			t.Errorf("log %q: %v:\n%s", log, err, output)
		}
	}
}

// Two that start at the same moment must not both get the port.
func TestPort_HasOneOwnerAmongServersThatStartTogether(t *testing.T) {
	const rounds, servers = 5, 4
	for range rounds {
		port, err := instance.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		var commands []*exec.Cmd
		ended := make(chan int, servers)
		for index := range servers {
			command := instance.Command(instance.Subject, port)
			command.Dir = t.TempDir()
			if err := command.Start(); err != nil {
				t.Fatal(err)
			}
			commands = append(commands, command)
			go func() { _ = command.Wait(); ended <- index }()
		}
		owners := servers
		for overdue := time.After(30 * time.Second); owners > 1; {
			select {
			case <-ended:
				owners--
			case <-overdue:
				t.Errorf("%d servers listen on one port", owners)
				owners = 1
			}
		}
		time.Sleep(200 * time.Millisecond)
		select {
		case <-ended:
			t.Error("nobody has the port")
		default:
		}
		for _, command := range commands {
			_ = command.Process.Kill()
		}
	}
}

func TestUnixSocket_TakenByAnotherServer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	server := instance.Start(t, instance.Subject, "--unixsocket", path, "--unixsocketperm", "700")
	output, err := startToEnd(t, "--unixsocket", path)
	if err == nil || !strings.Contains(output, "Address already in use") {
		t.Errorf("%v:\n%s", err, output)
	}
	if state, err := os.Stat(path); err != nil || state.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", state, err)
	}
	if err := server.Stop(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the socket is still there after the server")
	}
}

func TestUnixSocket_LeftBehindIsReplacedAndOtherFilesAreNot(t *testing.T) {
	directory := t.TempDir()
	path := filepath.Join(directory, "socket")
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	left.SetUnlinkOnClose(false)
	left.Close()
	instance.Start(t, instance.Subject, "--unixsocket", path)
	conn, err := wire.Dial(path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if reply := do(t, conn, "PING"); string(reply.Text) != "PONG" {
		t.Error(reply)
	}
	file := filepath.Join(directory, "file")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	output, err := startToEnd(t, "--unixsocket", file)
	if err == nil || !strings.Contains(output, "Failed opening Unix socket: bind:") {
		t.Errorf("%v:\n%s", err, output)
	}
	if text, _ := os.ReadFile(file); string(text) != "precious" {
		t.Errorf("the file that is no socket holds %q", text)
	}
}

func TestBind_NowhereToListenStopsTheStart(t *testing.T) {
	both(t, func(t *testing.T, kind instance.Kind) {
		for _, directives := range [][]string{{"--port", "0"}, {"--bind", ""}} {
			_, output, err := runToEndAnywhere(t, kind, directives...)
			if err == nil ||
				!strings.Contains(output, " # Configured to not listen anywhere, exiting.") {
				t.Errorf("%v: %v:\n%s", directives, err, output)
			}
		}
		for _, directives := range [][]string{{"--bind", "no..host"},
			{"--bind", "127.0.0.1 192.0.2.1"}} {
			port, output, err := runToEndAnywhere(t, kind, directives...)
			if err == nil || !regexp.MustCompile(
				`# Warning: Could not create server TCP listening socket `+
					`(no\.\.host:\d+: \w|192.0.2.1:\d+: bind: Cannot assign)`,
			).MatchString(output) ||
				!strings.Contains(output,
					fmt.Sprintf("# Failed listening on port %d (tcp), aborting.", port)) {
				t.Errorf("%v: %v:\n%s", directives, err, output)
			}
		}
	})
}

// 192.0.2.1 is set aside for documentation: no host has it.
func TestBind_TakesNamesAndPassesOverOptionalAddresses(t *testing.T) {
	both(t, func(t *testing.T, kind instance.Kind) {
		server := instance.Start(t, kind, "--bind", "-192.0.2.1 localhost")
		if reply := do(t, server.Dial(t), "PING"); string(reply.Text) != "PONG" {
			t.Error(reply)
		}
		requireLog(t, server,
			`# Warning: Could not create server TCP listening socket `+
				`192\.0\.2\.1:\d+: bind: Cannot assign requested address`)
	})
}

// Without descriptors for more, a client waits until there are some; those that are connected are
// served meanwhile. Accepting again is no part of the periodic work that a test may pause.
func TestDescriptors_ClientsWaitWhileNoneIsLeft(t *testing.T) {
	// One worker: of two, the one that never ran out would accept for both.
	server := instance.Start(t, instance.Subject, "--worker-threads", "1",
		"--enable-debug-command", "yes")
	conn := server.Dial(t)
	expectOK(t, conn, "DEBUG", "PAUSE-CRON", "1")
	defer do(t, conn, "DEBUG", "PAUSE-CRON", "0")
	// Beyond the standard streams, so that no gap among the server's descriptors is of use.
	var before unix.Rlimit
	if err := unix.Prlimit(server.PID, unix.RLIMIT_NOFILE, nil, &before); err != nil {
		t.Fatal(err)
	}
	limit := unix.Rlimit{Cur: 3, Max: before.Max}
	if err := unix.Prlimit(server.PID, unix.RLIMIT_NOFILE, &limit, nil); err != nil {
		t.Fatal(err)
	}
	var waiting []*wire.Conn
	for range 4 {
		next := server.Dial(t)
		if err := next.SendRaw([]byte("PING\r\n")); err != nil {
			t.Fatal(err)
		}
		waiting = append(waiting, next)
	}
	waitFor(t, "line in the log", func() bool {
		do(t, conn, "PING")
		return strings.Contains(server.Log(),
			"# Accepting client connection: accept: Too many open files")
	})
	if err := unix.Prlimit(server.PID, unix.RLIMIT_NOFILE, &before, nil); err != nil {
		t.Fatal(err)
	}
	for _, next := range waiting {
		if reply, err := next.Receive(); err != nil || string(reply.Text) != "PONG" {
			t.Errorf("%s, %v", reply, err)
		}
	}
}

func TestAcceptBurst_SpreadsConnectionsEvenly(t *testing.T) {
	const workers, burst = 4, 203
	directory := t.TempDir()
	path := filepath.Join(directory, "socket")
	server := instance.Start(t, instance.Subject, "--worker-threads", strconv.Itoa(workers),
		"--unixsocket", path)
	for _, address := range []string{path, server.Address} {
		opened := make(chan *wire.Conn, burst)
		for range burst {
			go func() {
				conn, err := wire.Dial(address)
				if err == nil {
					_, err = conn.Do("PING")
				}
				if err != nil {
					t.Error(err)
				}
				opened <- conn
			}()
		}
		var all []*wire.Conn
		for range burst {
			all = append(all, <-opened)
		}
		// Every connection is one more than the last that it finds; a reply shows that its worker
		// has it. A worker whose thread the machine did not run for a while was passed over: the
		// next ones go to it. At worst one worker has the whole burst.
		counts := workerFigures(t, all[0], "connections")
		isEven := func() bool { return slices.Max(counts)-slices.Min(counts) <= 1 }
		for !isEven() && len(all) < workers*burst {
			conn, err := wire.Dial(address)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, conn)
			do(t, conn, "PING")
			counts = workerFigures(t, all[0], "connections")
		}
		if len(counts) != workers || slices.Max(counts)-slices.Min(counts) > 1 {
			t.Errorf("%s: connections by worker %v", address, counts)
		}
		for _, conn := range all {
			conn.Close()
		}
		waitFor(t, "end of the burst", func() bool {
			conn := server.Dial(t)
			defer conn.Close()
			return field(t, conn, "clients", "connected_clients") == 1
		})
	}
}

func TestLog_HasValkeysFormAndLevels(t *testing.T) {
	both(t, func(t *testing.T, kind instance.Kind) {
		file := filepath.Join(t.TempDir(), "server.log")
		server := instance.Start(t, kind, "--logfile", file, "--loglevel", "verbose")
		line := regexp.MustCompile(`^\d+:M \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d\.\d{3} [.*#-] .`)
		read := func() string {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
		for _, each := range strings.Split(strings.TrimSpace(read()), "\n") {
			if !line.MatchString(each) {
				t.Errorf("%q", each)
			}
		}
		conn := server.Dial(t)
		if !regexp.MustCompile(` - Accepted 127\.0\.0\.1:\d+\n`).MatchString(read()) {
			t.Error(read())
		}
		// Rotation of the log needs no signal to the server.
		if err := os.Rename(file, file+".1"); err != nil {
			t.Fatal(err)
		}
		server.Dial(t).Close()
		waitFor(t, "line in the new file", func() bool {
			text, _ := os.ReadFile(file)
			return strings.Contains(string(text), "- Client closed connection id=")
		})
		expectOK(t, conn, "CONFIG", "SET", "loglevel", "warning")
		before := read()
		server.Dial(t).Close()
		time.Sleep(200 * time.Millisecond)
		if after := read(); after != before {
			t.Errorf("logged below the level: %s", strings.TrimPrefix(after, before))
		}
	})
}

func TestLogFile_ThatCannotBeWrittenStopsTheStart(t *testing.T) {
	output, err := startToEnd(t, "--logfile", "/nonexistent/server.log")
	if err == nil || !strings.Contains(output, "Can't open the log file") {
		t.Errorf("%v:\n%s", err, output)
	}
}

// startWithPIDFile starts a server that its test ends, with a pid file.
func startWithPIDFile(
	t *testing.T, kind instance.Kind,
) (server *instance.Server, pidFile string) {
	t.Helper()
	pidFile = filepath.Join(t.TempDir(), "pid")
	server, err := instance.Launch(kind, t.TempDir(), "--pidfile", pidFile)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Kill)
	return server, pidFile
}

func TestSignals_StopTheServerInOrder(t *testing.T) {
	both(t, func(t *testing.T, kind instance.Kind) {
		for name, signal := range map[string]syscall.Signal{"SIGINT": syscall.SIGINT,
			"SIGTERM": syscall.SIGTERM} {
			server, pidFile := startWithPIDFile(t, kind)
			text, err := os.ReadFile(pidFile)
			if strings.TrimSpace(string(text)) != strconv.Itoa(server.PID) {
				t.Errorf("pid file: %q, %v", text, err)
			}
			// A closed terminal is no reason to stop.
			_ = syscall.Kill(server.PID, syscall.SIGHUP)
			time.Sleep(100 * time.Millisecond)
			if !answers(server.Address) {
				t.Error("SIGHUP ended the server")
			}
			_ = syscall.Kill(server.PID, signal)
			if err := server.AwaitEnd(closeTimeout); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			for _, text := range []string{
				"Received " + name + " scheduling shutdown...", "* User requested shutdown...",
				"* Removing the pid file.", "is now ready to exit, bye bye...",
			} {
				if !strings.Contains(server.Log(), text) {
					t.Errorf("no %q in:\n%s", text, server.Log())
				}
			}
			if _, err := os.Stat(pidFile); err == nil {
				t.Error("the pid file is still there")
			}
		}
	})
}

func TestStart_SaysThatARestartLosesAll(t *testing.T) {
	server := instance.Start(t, instance.Subject)
	waitFor(t, "line in the log", func() bool {
		return strings.Contains(server.Log(),
			"* No persistence is configured: a restart loses all data\n")
	})
	if loses := field(t, server.Dial(t), "persistence", "restart_loses_all_data"); loses != 1 {
		t.Errorf("restart_loses_all_data:%d", loses)
	}
}

func TestShutdown_ReadsItsOptionsAndEndsTheServer(t *testing.T) {
	both(t, func(t *testing.T, kind instance.Kind) {
		server, pidFile := startWithPIDFile(t, kind)
		conn := server.Dial(t)
		for options, want := range map[string]string{
			"ABORT": "ERR No shutdown in progress.", "abort Abort": "ERR No shutdown in progress.",
			"ABORT NOW": "ERR syntax error", "SAFE ABORT": "ERR syntax error",
			"SAVE NOSAVE": "ERR syntax error",
			"SOON":        "ERR syntax error", "NOSAVE ": "ERR syntax error",
			"FAILOVER": "ERR SHUTDOWN FAILOVER is only supported in cluster mode.",
		} {
			reply := do(t, conn, append([]string{"SHUTDOWN"}, strings.Split(options, " ")...)...)
			if string(reply.Text) != want {
				t.Errorf("SHUTDOWN %s answered %s, want %s", options, reply, want)
			}
		}
		if err := conn.Send("SHUTDOWN", "nosave", "NOSAVE", "Now", "FORCE", "SAFE"); err != nil {
			t.Fatal(err)
		}
		if count := drain(t, conn); count != 0 {
			t.Errorf("SHUTDOWN answered with %d bytes", count)
		}
		if err := server.AwaitEnd(closeTimeout); err != nil {
			t.Errorf("the server ended with %v", err)
		}
		for _, text := range []string{
			"* User requested shutdown... (user request from 'id=", " addr=127.0.0.1:",
			"* Removing the pid file.", "is now ready to exit, bye bye...",
		} {
			if !strings.Contains(server.Log(), text) {
				t.Errorf("no %q in:\n%s", text, server.Log())
			}
		}
		if strings.Contains(server.Log(), "Received SIG") {
			t.Errorf("a command is logged as a signal:\n%s", server.Log())
		}
		if _, err := os.Stat(pidFile); err == nil {
			t.Error("the pid file is still there")
		}
	})
}

// answers tells whether a server answers PING at an address or a socket.
func answers(address string) bool {
	conn, err := wire.Dial(address)
	if err != nil {
		return false
	}
	defer conn.Close()
	reply, err := conn.Do("PING")
	return err == nil && string(reply.Text) == "PONG"
}

func TestDaemonize_RunsOnInTheBackground(t *testing.T) {
	both(t, func(t *testing.T, kind instance.Kind) {
		directory := t.TempDir()
		pidFile, logFile := filepath.Join(directory, "pid"), filepath.Join(directory, "log")
		socket := filepath.Join(directory, "socket")
		command := instance.Command(kind, 0, "--unixsocket", socket, "--daemonize", "yes",
			"--pidfile", pidFile, "--logfile", logFile)
		if output, err := runToEnd(t, command); err != nil || output != "" {
			t.Fatalf("the first process: %v:\n%s", err, output)
		}
		waitFor(t, "answer", func() bool { return answers(socket) })
		text, err := os.ReadFile(pidFile)
		if err != nil {
			t.Fatal(err)
		}
		pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
		if pid <= 1 || pid == command.Process.Pid {
			t.Fatalf("pid file: %q", text)
		}
		// The process is of another session, has no terminal, and its streams lead nowhere.
		if session, _ := unix.Getsid(pid); session == os.Getpid() || session == 0 {
			t.Errorf("session %d", session)
		}
		for descriptor := range 3 {
			if target, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pid,
				descriptor)); target != "/dev/null" {
				t.Errorf("descriptor %d is %s, %v", descriptor, target, err)
			}
		}
		if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		waitFor(t, "end", func() bool {
			log, _ := os.ReadFile(logFile)
			_, err := os.Stat(pidFile)
			return os.IsNotExist(err) && strings.Contains(string(log), "bye bye")
		})
	})
}

func TestSupervised_TellsSystemd(t *testing.T) {
	for _, mode := range []string{"systemd", "auto"} {
		path := filepath.Join(t.TempDir(), "notify")
		socket, err := net.ListenPacket("unixgram", path)
		if err != nil {
			t.Fatal(err)
		}
		defer socket.Close()
		own := filepath.Join(t.TempDir(), "socket")
		// Under a supervisor a server stays in the foreground, as in Redis.
		command := instance.Command(instance.Subject, 0, "--unixsocket", own, "--supervised", mode,
			"--daemonize", "yes")
		command.Dir, command.Env = t.TempDir(), append(os.Environ(), "NOTIFY_SOCKET="+path)
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		defer command.Process.Kill()
		expectNotice(t, socket, "READY=1")
		if !answers(own) {
			t.Error("it said that it is ready and is not")
		}
		conn, err := wire.Dial(own)
		if err != nil {
			t.Fatal(err)
		}
		info := string(do(t, conn, "INFO", "server").Text)
		if !strings.Contains(info, "process_supervised:systemd") {
			t.Error(info)
		}
		_ = command.Process.Signal(syscall.SIGTERM)
		expectNotice(t, socket, "STOPPING=1")
		if err := command.Wait(); err != nil {
			t.Error(err)
		}
	}
}

func expectNotice(t *testing.T, socket net.PacketConn, line string) {
	t.Helper()
	buffer := make([]byte, 4096)
	_ = socket.SetReadDeadline(time.Now().Add(closeTimeout))
	count, _, err := socket.ReadFrom(buffer)
	if err != nil || !strings.Contains("\n"+string(buffer[:count])+"\n", "\n"+line+"\n") {
		t.Errorf("notice %q, %v; want %s", buffer[:count], err, line)
	}
}

// underFileLimit starts a server under a limit of open files, and returns its maxclients and its
// log.
func underFileLimit(t *testing.T, kind instance.Kind, limit string) (string, string) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "socket")
	command := instance.Command(kind, 0, "--unixsocket", socket, "--maxclients", "200")
	limited := exec.Command("prlimit", append([]string{"--nofile=" + limit}, command.Args...)...)
	limited.SysProcAttr = command.SysProcAttr
	var output strings.Builder
	limited.Dir, limited.Stdout, limited.Stderr = t.TempDir(), &output, &output
	if err := limited.Start(); err != nil {
		t.Fatal(err)
	}
	defer limited.Process.Kill()
	waitFor(t, "ready server", func() bool { return answers(socket) })
	conn, err := wire.Dial(socket)
	if err != nil {
		t.Fatal(err)
	}
	reply := do(t, conn, "CONFIG", "GET", "maxclients")
	conn.Close()
	_ = limited.Process.Signal(syscall.SIGTERM)
	_ = limited.Wait()
	return string(reply.Items[1].Text), output.String()
}

// The clients that a limit allows depend on the test's user: root may raise even the hard limit.
// Valkey is the oracle; it lowers its wish in steps of 16 and may leave some of the limit unused.
func TestMaxclients_FollowsTheLimitOfOpenFiles(t *testing.T) {
	aboutFiles := regexp.MustCompile(
		`[*#] (Increased maximum number of open files|You requested maxclients|` +
			`Server can't set maximum open files|Current maximum open files).*`)
	number := regexp.MustCompile(`\d+`)
	phrases := func(log string) string {
		return number.ReplaceAllString(strings.Join(aboutFiles.FindAllString(log, -1), "\n"), "N")
	}
	for _, limit := range []string{"100:300", "100:132", "300:300"} {
		wantClients, wantLog := underFileLimit(t, instance.Valkey, limit)
		clients, log := underFileLimit(t, instance.Subject, limit)
		want, _ := strconv.Atoi(wantClients)
		if got, _ := strconv.Atoi(clients); got < want || got >= want+16 {
			t.Errorf("limit %s: maxclients %d, Valkey's %d", limit, got, want)
		}
		if got, want := phrases(log), phrases(wantLog); got != want {
			t.Errorf("limit %s: logged\n%s\nValkey\n%s", limit, got, want)
		}
	}
}

// descriptorsMax is how many descriptors a server that this test starts can have at most: root may
// raise even the hard limit.
func descriptorsMax(t *testing.T) string {
	t.Helper()
	if os.Geteuid() == 0 {
		text, err := os.ReadFile("/proc/sys/fs/nr_open")
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(text))
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	return strconv.FormatUint(limit.Max, 10)
}

// No more than the system holds is asked for: Valkey comes down from there in steps of 16, each a
// system call.
func TestMaxclients_RefusesWhatTheSystemCannotHold(t *testing.T) {
	wish := descriptorsMax(t)
	both(t, func(t *testing.T, kind instance.Kind) {
		server := instance.Start(t, kind, "--maxclients", "7")
		conn := server.Dial(t)
		reply := do(t, conn, "CONFIG", "SET", "maxclients", wish)
		const want = "ERR CONFIG SET failed (possibly related to argument 'maxclients') - The " +
			"operating system is " +
			"not able to handle the specified number of clients, try with "
		if !strings.HasPrefix(string(reply.Text), want) {
			t.Errorf("%s", reply)
		}
		if got := string(do(t, conn, "CONFIG", "GET", "maxclients").Items[1].Text); got != "7" {
			t.Errorf("maxclients is %s afterwards", got)
		}
		expectOK(t, conn, "CONFIG", "SET", "maxclients", "1")
		other := server.Dial(t)
		if reply, err := other.Receive(); err != nil ||
			string(reply.Text) != "ERR max number of clients reached" {
			t.Errorf("%s, %v", reply, err)
		}
		if count := field(t, conn, "stats", "rejected_connections"); count != 1 {
			t.Errorf("%d rejected", count)
		}
	})
}

// runServer runs the server with arguments by which it ends at once; returns what it printed, and
// its exit status.
func runServer(t *testing.T, arguments ...string) (string, int) {
	t.Helper()
	command := exec.Command(instance.Binary(instance.Subject),
		append([]string{"server"}, arguments...)...)
	output, _ := runToEnd(t, command)
	return output, command.ProcessState.ExitCode()
}

func TestCommandLine_ChecksItselfAndVersions(t *testing.T) {
	if output, status := runServer(t, "--version"); status != 0 ||
		!regexp.MustCompile(
			`^Tidemill server v=\d+\.\d+\.\d+ sha=([0-9a-f]{12}|unknown) `).MatchString(output) {
		t.Errorf("%d: %s", status, output)
	}
	output, status := runServer(t, "--port", "x", "--check-config", "--maxmemroy", "1")
	if status != 2 || strings.Contains(strings.ToLower(output), "file") ||
		!strings.Contains(output, `command line: 'port "x"': `) ||
		!strings.Contains(output, "command line: 'maxmemroy': ") {
		t.Errorf("%d:\n%s", status, output)
	}
}

// All faults are told at once, by the check and by a start.
func TestCommandLine_ChecksAllOfAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "redis.conf")
	for contents, want := range map[string]struct {
		status int
		lines  []string
	}{
		"port 1234\nmaxmemory 1gb\n": {0, []string{"the configuration is correct"}},
		"port 1234\n\ncluster-enabled yes\n": {2,
			[]string{":3: directive 'cluster-enabled': 'yes' is not supported: there is no " +
				"cluster mode; accepted: 'no'"}},
		"prot 1234\nserver-cpulist 0-x\nport 70000\nsupervised upstart\ndir /no/where\n": {2,
			[]string{
				"*** FATAL CONFIG FILE ERROR (Tidemill ",
				":1: directive 'prot': Bad directive or wrong number of arguments; did you mean " +
					"'port'?",
				":2: directive 'server-cpulist': argument must be a list of CPUs",
				":3: directive 'port': argument must be between 0 and 65535 inclusive; " +
					"accepted: 0 to 65535",
				":4: directive 'supervised': ",
				":5: directive 'dir': No such file or directory; accepted: a directory",
			}},
		"port abc\nrename-command nosuch x\nuser bob +nosuch\naclfile no.acl\n": {2, []string{
			"*** FATAL CONFIG FILE ERROR (Tidemill ",
			":1: directive 'port': argument couldn't be parsed into an integer; ",
			":2: directive 'rename-command': No such command in rename-command; accepted: ",
			":3: directive 'user': Error in user declaration 'bob': '+nosuch': Unknown command",
			":3: directive 'user': users are declared in aclfile 'no.acl' already: not in both",
		}},
		"unixsocket s\nunixsocketgroup no-group\ntls-port 6380\naclfile no.acl\n": {2, []string{
			"*** FATAL CONFIG FILE ERROR (Tidemill ",
			"aclfile 'no.acl': Error loading ACLs, opening file 'no.acl': No such file",
			":2: directive 'unixsocketgroup': there is no group 'no-group'",
			":3: directive 'tls-port': Failed to configure TLS: No tls-cert-file configured!",
		}},
	} {
		if err := os.WriteFile(file, []byte(contents), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, arguments := range [][]string{{file, "--check-config"}, {file}} {
			if want.status == 0 && len(arguments) == 1 {
				continue
			}
			output, status := runServer(t, arguments...)
			if lines := strings.Split(strings.TrimSpace(output), "\n"); status != want.status ||
				len(lines) != len(want.lines) && len(want.lines) > 1 {
				t.Errorf("%q: status %d:\n%s", contents, status, output)
			}
			for _, line := range want.lines {
				if !strings.Contains(output, line) {
					t.Errorf("%q: no %q in\n%s", contents, line, output)
				}
			}
		}
	}
}

func TestCommandLine_HelpsAndNamesWhatIsUnknown(t *testing.T) {
	for line, want := range map[string]struct {
		status int
		text   string
	}{
		"":    {2, "Usage: tidemill PART"},
		"foo": {2, "unknown part 'foo'\n"},
		"srever": {2,
			"unknown part 'srever'; did you mean 'server'?"},
		"--port 7":    {2, "tidemill server --port"},
		"redis.conf":  {2, "tidemill server redis.conf"},
		"help":        {0, "Usage: tidemill PART"},
		"help foo":    {2, "unknown part 'foo'\n"},
		"help server": {0, "Usage: tidemill server"},
		"server --help": {0,
			"--port             TCP port; 0 listens on no TCP port. [6379]"},
		"server --port 7 --help":    {0, "tidemill server --port 6380 --maxmemory 2gb"},
		"server --port 7 --version": {0, "Tidemill server v="},
		"server --list-directives": {0,
			"  maxmemory                                memory, from 0 [0]: "},
		"server a.conf b.conf --list-directive": {2, "did you mean 'list-directives'?"},
	} {
		command := exec.Command(instance.Binary(instance.Subject), strings.Fields(line)...)
		output, _ := runToEnd(t, command)
		if status := command.ProcessState.ExitCode(); status != want.status ||
			!strings.Contains(output, want.text) {
			t.Errorf("tidemill %s: status %d:\n%s", line, status, output)
		}
	}
	// A reader that goes away early is no reason to panic.
	command := exec.Command("sh", "-c", `"$0" server --list-directives | head -1`,
		instance.Binary(instance.Subject))
	if output, err := runToEnd(t, command); err != nil || output != "Network and clients\n" {
		t.Errorf("%v:\n%s", err, output)
	}
}

// Standard input is another file, and both are read to their ends.
func TestCommandLine_ChecksStandardInput(t *testing.T) {
	command := exec.Command(instance.Binary(instance.Subject), "server", "-", "--check-config")
	command.Stdin = strings.NewReader(strings.Repeat("port x\n", 1000))
	output, _ := runToEnd(t, command)
	lines := strings.Split(strings.TrimSpace(output), "\n")
	if len(lines) != 102 ||
		!strings.HasPrefix(lines[100], "standard input:100: directive 'port': ") ||
		lines[101] != "... and 900 more errors" {
		t.Errorf("%d lines:\n%s", len(lines), output)
	}
}
