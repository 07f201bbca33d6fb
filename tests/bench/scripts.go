package main

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

const (
	scriptPipeline = 100
	scriptKeys     = 1_000
	// scriptInnerCalls are the calls of the script by which one inner call is measured.
	scriptInnerCalls = 100
)

const (
	scriptOne = "return 1"
	scriptGet = "return redis.call('GET', KEYS[1])"
)

// scriptMany calls a command that often; what it costs beyond one call is the inner calls'.
var scriptMany = fmt.Sprintf("local v for i = 1, %d do v = redis.call('GET', KEYS[1]) end return v",
	scriptInnerCalls)

// scriptLoads are requests with the most CPU per operation that is wanted, Valkey's as 1.
var scriptLoads = []struct {
	name    string
	limit   float64
	request func(key string) []string
}{
	{"EVALSHA return 1", 0.6, func(string) []string {
		return []string{"EVALSHA", digestOf(scriptOne), "0"}
	}},
	{"EVALSHA GET", 0.5, func(key string) []string {
		return []string{"EVALSHA", digestOf(scriptGet), "1", key}
	}},
	{"EVAL GET", 0.5, func(key string) []string { return []string{"EVAL", scriptGet, "1", key} }},
	{"100 GETs of a script", 0.5, func(key string) []string {
		return []string{"EVALSHA", digestOf(scriptMany), "1", key}
	}},
}

func digestOf(script string) string {
	sum := sha1.Sum([]byte(script))
	return hex.EncodeToString(sum[:])
}

func measureScripts(report *Report, chosen settings) error {
	for _, measure := range []func(*Report, settings) error{
		measureScriptCalls, measureScriptWorkers, measureScriptNeighbours,
	} {
		if err := measure(report, chosen); err != nil {
			return err
		}
	}
	return nil
}

// measureScriptCalls compares calls of small scripts, pipelined, with Valkey's.
func measureScriptCalls(report *Report, chosen settings) error {
	contenders := []contender{
		{name: "tidemill", kind: instance.Subject, directives: tidemillDirectives(1)},
		{name: "valkey", kind: instance.Valkey},
	}
	return withServers(serverCPU, contenders, func(contenders []contender) error {
		for _, c := range contenders {
			if err := prepareScripts(c.server); err != nil {
				return fmt.Errorf("prepare %s: %w", c.name, err)
			}
		}
		for _, each := range scriptLoads {
			file := filepath.Join(contenders[0].server.Directory, "requests")
			if err := writeScriptRequests(file, each.request); err != nil {
				return err
			}
			shape := load{
				connections: smallConnectionCount, pipeline: scriptPipeline, keys: scriptKeys,
				seconds: chosen.Seconds / 2, requests: file, cpus: loadCPU,
			}
			if err := inTurns(report, each.name, chosen.PartRounds, contenders, shape); err != nil {
				return err
			}
			report.verdict(each.name+": CPU per operation / Valkey's", each.limit,
				report.ratio(each.name, "tidemill", "valkey", Sample.TotalUs))
		}
		return nil
	})
}

func scriptKey(number int) string { return fmt.Sprintf("key:%06d", number) }

func writeScriptRequests(path string, request func(key string) []string) error {
	var out strings.Builder
	for number := range scriptKeys {
		arguments := request(scriptKey(number))
		fmt.Fprintf(&out, "*%d\r\n", len(arguments))
		for _, argument := range arguments {
			fmt.Fprintf(&out, "$%d\r\n%s\r\n", len(argument), argument)
		}
	}
	return os.WriteFile(path, []byte(out.String()), 0o600)
}

// prepareScripts loads the scripts and sets the keys that they read.
func prepareScripts(server *instance.Server) error {
	conn, err := wire.Dial(server.Address)
	if err != nil {
		return err
	}
	defer conn.Close()
	for _, script := range []string{scriptOne, scriptGet, scriptMany} {
		reply, err := conn.Do("SCRIPT", "LOAD", script)
		if err != nil || string(reply.Text) != digestOf(script) {
			return fmt.Errorf("SCRIPT LOAD: %v %v", reply, err)
		}
	}
	for number := range scriptKeys {
		if reply, err := conn.Do("SET", scriptKey(number), "value"); err != nil || reply.IsError() {
			return fmt.Errorf("SET: %v %v", reply, err)
		}
	}
	return nil
}
