package main

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"

	"tidemill/tests/internal/instance"
	"tidemill/tests/internal/wire"
)

// collectionSizes are the lengths of the hashes and lists: the smallest fits one leaf of Tidemill
// and is a listpack in Valkey.
var collectionSizes = []struct {
	name        string
	keys, items int
}{
	{"one leaf (32)", 3_000, 32},
	{"10^4", 10, 10_000},
	{"10^6", 1, 1_000_000},
}

const (
	collectionRequests   = 100_000
	collectionPipeline   = 16
	collectionFillBatch  = 500
	collectionRatioLimit = 1.0
)

// collectionLoads make one request each; LPUSH and RPOP take turns, because a list keeps its size
// only under both.
var collectionLoads = []struct {
	name    string
	request func(keys, number, key, item int) []string
}{
	{"HSET", func(_, number, key, item int) []string {
		return []string{"HSET", hashKey(key), itemField(item), itemValue(number)}
	}},
	{"HGET", func(_, _, key, item int) []string {
		return []string{"HGET", hashKey(key), itemField(item)}
	}},
	{"LPUSH and RPOP in turn", func(keys, number, _, _ int) []string {
		key := number / 2 % keys
		if number%2 == 0 {
			return []string{"LPUSH", listKey(key), itemValue(number)}
		}
		return []string{"RPOP", listKey(key)}
	}},
	{"LINDEX", func(_, _, key, item int) []string {
		return []string{"LINDEX", listKey(key), fmt.Sprint(item)}
	}},
}

func hashKey(key int) string      { return fmt.Sprintf("hash:%06d", key) }
func listKey(key int) string      { return fmt.Sprintf("list:%06d", key) }
func itemField(item int) string   { return fmt.Sprintf("f%09d", item) }
func itemValue(number int) string { return fmt.Sprintf("v%09d", number) }

// measureCollections compares single edits and reads of hashes and lists of three sizes.
func measureCollections(report *Report, chosen settings) error {
	for _, size := range collectionSizes {
		contenders := []contender{
			{name: "tidemill", kind: instance.Subject, directives: tidemillDirectives(1)},
			{name: "valkey", kind: instance.Valkey},
		}
		err := withServers(serverCPU, contenders, func(contenders []contender) error {
			for _, c := range contenders {
				if err := fillCollections(c.server, size.keys, size.items); err != nil {
					return fmt.Errorf("fill %s: %w", c.name, err)
				}
			}
			for _, each := range collectionLoads {
				name := fmt.Sprintf("%s, %s", each.name, size.name)
				file := filepath.Join(contenders[0].server.Directory, "requests")
				if err := writeRequests(file, size.keys, size.items, each.request); err != nil {
					return err
				}
				shape := load{
					connections: smallConnectionCount, pipeline: collectionPipeline,
					keys:    size.keys,
					seconds: chosen.Seconds / 2, requests: file, cpus: loadCPU,
				}
				if err := judgeRatio(report, name, chosen.PartRounds, contenders, shape,
					collectionRatioLimit); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func writeRequests(
	path string, keys, items int, request func(keys, number, key, item int) []string,
) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	out := bufio.NewWriter(file)
	// All servers and rounds get the same requests.
	random := rand.New(rand.NewPCG(1, 2))
	for number := range collectionRequests {
		arguments := request(keys, number, random.IntN(keys), random.IntN(items))
		fmt.Fprintf(out, "*%d\r\n", len(arguments))
		for _, argument := range arguments {
			fmt.Fprintf(out, "$%d\r\n%s\r\n", len(argument), argument)
		}
	}
	return out.Flush()
}

func fillCollections(server *instance.Server, keys, items int) error {
	conn, err := wire.Dial(server.Address)
	if err != nil {
		return err
	}
	defer conn.Close()
	for key := range keys {
		for first := 0; first < items; first += collectionFillBatch {
			hash, list := []string{"HSET", hashKey(key)}, []string{"RPUSH", listKey(key)}
			for item := first; item < min(first+collectionFillBatch, items); item++ {
				hash = append(hash, itemField(item), itemValue(item))
				list = append(list, itemValue(item))
			}
			for _, command := range [][]string{hash, list} {
				if reply, err := conn.Do(command...); err != nil || reply.IsError() {
					return fmt.Errorf("%s: %v %v", command[0], reply, err)
				}
			}
		}
	}
	return nil
}
