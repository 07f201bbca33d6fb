package goredis

import (
	"bytes"
	"strconv"
)

// state is what session commands made of a connection: who is logged in, which database, which
// name. Virtual connections in equal states can share a real one. It is comparable, and it is
// enough to bring a fresh connection into the same state.
type state struct {
	protocol       string // of HELLO; "": never said
	user, password string
	login          login
	settings       [settingCount]string // the encoded command that made each setting, "" for none
}

type login uint8

const (
	loginNone login = iota
	loginUser
	loginPasswordOnly // AUTH with one argument, all that old servers know
)

type setting uint8

// In the order in which a fresh connection gets them.
const (
	settingReadonly setting = iota
	settingDatabase
	settingName
	settingLibraryName
	settingLibraryVersion
	settingNoEvict
	settingNoTouch
	settingCapabilities
	settingImport
	settingCount
)

var settingNames = map[string]setting{
	"READONLY":                settingReadonly,
	"READWRITE":               settingReadonly,
	"SELECT":                  settingDatabase,
	"CLIENT SETNAME":          settingName,
	"CLIENT SETINFO LIB-NAME": settingLibraryName,
	"CLIENT SETINFO LIB-VER":  settingLibraryVersion,
	"CLIENT NO-EVICT":         settingNoEvict,
	"CLIENT NO-TOUCH":         settingNoTouch,
	"CLIENT CAPA":             settingCapabilities,
	"CLIENT IMPORT-SOURCE":    settingImport,
}

// after returns the state once the server has accepted an encoded session command.
func (s state) after(command []byte) state {
	args := arguments(command)
	name := string(bytes.ToUpper(args[0]))
	switch name {
	case "HELLO":
		s.hello(args[1:])
		return s
	case "AUTH":
		if len(args) == 2 {
			s.login, s.user, s.password = loginPasswordOnly, "default", string(args[1])
		} else if len(args) == 3 {
			s.login, s.user, s.password = loginUser, string(args[1]), string(args[2])
		}
		return s
	}
	for i := 1; i <= len(args) && i <= 3; i++ {
		if which, ok := settingNames[string(bytes.ToUpper(bytes.Join(args[:i], []byte(" "))))]; ok {
			s.settings[which] = string(command)
		}
	}
	return s
}

func (s *state) hello(options [][]byte) {
	if len(options) == 0 {
		return
	}
	s.protocol = string(options[0])
	for i := 1; i < len(options); i++ {
		switch {
		case bytes.EqualFold(options[i], []byte("AUTH")) && i+2 < len(options):
			s.login, s.user, s.password = loginUser, string(options[i+1]), string(options[i+2])
			i += 2
		case bytes.EqualFold(options[i], []byte("SETNAME")) && i+1 < len(options):
			s.settings[settingName] = string(encode("CLIENT", "SETNAME", string(options[i+1])))
			i++
		}
	}
}

// prologue returns the commands that bring a fresh connection into the state. The login comes
// first, and as it was last given: tokens expire.
func (s state) prologue() (commands []byte, count int) {
	switch {
	case s.protocol != "" && s.login != loginNone:
		commands = append(commands, encode("HELLO", s.protocol, "AUTH", s.user, s.password)...)
	case s.protocol != "":
		commands = append(commands, encode("HELLO", s.protocol)...)
	case s.login == loginUser:
		commands = append(commands, encode("AUTH", s.user, s.password)...)
	case s.login == loginPasswordOnly:
		commands = append(commands, encode("AUTH", s.password)...)
	default:
		count--
	}
	count++
	for _, command := range s.settings {
		if command != "" {
			commands = append(commands, command...)
			count++
		}
	}
	return commands, count
}

func encode(args ...string) []byte {
	wire := append(strconv.AppendInt([]byte{'*'}, int64(len(args)), 10), "\r\n"...)
	for _, arg := range args {
		wire = append(strconv.AppendInt(append(wire, '$'), int64(len(arg)), 10), "\r\n"...)
		wire = append(append(wire, arg...), "\r\n"...)
	}
	return wire
}
