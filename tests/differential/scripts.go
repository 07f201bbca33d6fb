package differential

// scripts are sources of EVAL. They answer the same on all servers whatever the keys hold: nothing
// of them depends on chance, or on the order of a hash table.
var scripts = []string{
	"return 1",
	"return {KEYS[1], ARGV[1], #KEYS, #ARGV, 1.9, true, false, 'x'}",
	"return redis.call('GET', KEYS[1])",
	"return redis.call('SET', KEYS[1], 'v' .. (ARGV[1] or ''))",
	"return redis.pcall('INCR', KEYS[1])",
	"return redis.call('RPUSH', KEYS[1], unpack(ARGV))",
	"redis.call('HSET', KEYS[1], 'f', ARGV[1]) return redis.call('HGET', KEYS[1], 'f')",
	"local n = 0 for _, key in ipairs(KEYS) do n = n + redis.call('EXISTS', key) end return n",
	"redis.call('SET', 's0', '1') " +
		"return {redis.pcall('LPUSH', 's0', 'x'), redis.call('DEL', 's0')}",
	"return redis.call('MGET', unpack(KEYS))",
	"redis.call('DEL', 'h0') redis.call('HSET', 'h0', 'f', 'v') redis.setresp(3) " +
		"return redis.call('HGETALL', 'h0')",
	"redis.call('SELECT', 2) return redis.call('SET', 'in two', ARGV[1])",
	"return redis.call('ZRANGE', 'z0', 0, -1, 'WITHSCORES')",
	"return redis.pcall('RENAME', KEYS[1], KEYS[2])",
	"return redis.call('LRANGE', KEYS[1], 0, 2)",
	"return redis.call(unpack(ARGV))",
	"return redis.pcall(unpack(ARGV))",
	"return cjson.encode({KEYS[1], ARGV[1]})",
	"return redis.sha1hex(ARGV[1])",
	"return redis.error_reply('MY ' .. #ARGV)",
	"return {err = 'TABLE error'}",
	"error('raised')",
	"return {double = 1.5}",
	"return {map = {a = {set = {b = true}}}}",
	"#!lua flags=no-writes\nreturn redis.call('GET', KEYS[1])",
	"#!lua flags=no-writes,allow-oom\nreturn redis.call('SET', 's1', 'x')",
	"#!lua\nreturn redis.call('APPEND', 's1', 'x')",
}

var badScripts = []string{
	"", "return", "return (", "x = 1", "return y", "#!lua flags=none\nreturn 1", "#!js\nreturn 1",
	"#!lua name=x\nreturn 1", "return redis.call()", "return redis.call({})",
	"return redis.call('nothing')", "return redis.call('GET')", "return redis.call('WATCH', 'a')",
}

// digests are of scripts, and of nothing.
var digests = []string{
	"e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "E0E1F9FABFC9D4800C877A703B823AC0578FF8DB",
	"d3c21d0c2b9ca22f82737626a27bcaf5d288f99f", "abc", "",
	"0000000000000000000000000000000000000000",
}

// libraries all have one name: two would be listed in an order that each server chooses.
var libraries = []string{
	"#!lua name=lib\nredis.register_function('f', function(keys, args) return {keys, args} end)",
	"#!lua name=lib\nredis.register_function{function_name='f', callback=function(keys, args) " +
		"return redis.call('GET', keys[1]) end, flags={'no-writes'}, description='reads'}",
	"#!lua name=lib\nredis.register_function('f', function(keys, args) " +
		"return redis.call('SET', keys[1], 'v' .. args[1]) end)",
}

var badLibraries = []string{
	"", "return 1", "#!lua\nreturn 1", "#!lua name=lib\nreturn 1", "#!lua name=a-b\nreturn 1",
	"#!js name=lib\nreturn 1", "#!lua name=lib other=1\nreturn 1", "#!lua name=lib\nreturn (",
	"#!lua name=lib\nx = 1", "#!lua name=lib\nredis.register_function('f')",
	"#!lua name=other\nredis.register_function('f', 1)",
}

// scriptText makes an argument of the commands about scripts; false when it is none of those.
func (g *generator) scriptText(name string) (string, bool) {
	random := g.random
	switch name {
	case "script":
		return mostly(random, 12, scripts, badScripts), true
	case "sha1":
		return pick(random, digests), true
	case "function":
		return mostly(random, 8, []string{"f", "F"}, []string{"nothing", ""}), true
	case "function-code":
		return mostly(random, 6, libraries, badLibraries), true
	case "library-name":
		return mostly(random, 4, []string{"lib"}, []string{"nothing", "", "LIB"}), true
	case "library-name-pattern":
		return pick(random, []string{"*", "lib", "LI?", "nothing", ""}), true
	}
	return "", false
}
