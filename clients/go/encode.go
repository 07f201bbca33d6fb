package tidemill

import (
	"fmt"
	"strconv"
	"time"
)

// Commands are encoded from concrete types only. Calling a method of an argument would make every
// argument of every call escape to the heap; a caller with a marshaller calls it and passes the
// bytes.

// appendCommand appends args as one RESP command.
func appendCommand(wire []byte, args []any) ([]byte, error) {
	if len(args) == 0 {
		return wire, argumentError("empty command")
	}
	wire = appendHeader(wire, '*', len(args))
	for i, arg := range args {
		var ok bool
		if wire, ok = appendArg(wire, arg); !ok {
			return wire, argumentError("argument %d has a type that cannot be sent", i)
		}
	}
	return wire, nil
}

func appendArg(wire []byte, arg any) ([]byte, bool) {
	switch value := arg.(type) {
	case string:
		return appendString(wire, value), true
	case []byte:
		wire = appendHeader(wire, '$', len(value))
		return append(append(wire, value...), '\r', '\n'), true
	case int:
		return appendInt(wire, int64(value)), true
	case int64:
		return appendInt(wire, value), true
	case int32:
		return appendInt(wire, int64(value)), true
	case int16:
		return appendInt(wire, int64(value)), true
	case int8:
		return appendInt(wire, int64(value)), true
	case uint:
		return appendUint(wire, uint64(value)), true
	case uint64:
		return appendUint(wire, value), true
	case uint32:
		return appendUint(wire, uint64(value)), true
	case uint16:
		return appendUint(wire, uint64(value)), true
	case uint8:
		return appendUint(wire, uint64(value)), true
	case float64:
		return appendFloat(wire, value, 64), true
	case float32:
		return appendFloat(wire, float64(value), 32), true
	case bool:
		if value {
			return append(wire, "$1\r\n1\r\n"...), true
		}
		return append(wire, "$1\r\n0\r\n"...), true
	case time.Duration:
		return appendInt(wire, int64(value)), true
	case time.Time:
		return appendString(wire, value.Format(time.RFC3339Nano)), true
	}
	return wire, false
}

func appendHeader(wire []byte, kind byte, length int) []byte {
	wire = append(wire, kind)
	if length < 10 {
		return append(wire, byte('0'+length), '\r', '\n')
	}
	wire = strconv.AppendInt(wire, int64(length), 10)
	return append(wire, '\r', '\n')
}

func appendString(wire []byte, value string) []byte {
	wire = appendHeader(wire, '$', len(value))
	return append(append(wire, value...), '\r', '\n')
}

func appendInt(wire []byte, value int64) []byte {
	var digits [20]byte
	text := strconv.AppendInt(digits[:0], value, 10)
	wire = appendHeader(wire, '$', len(text))
	return append(append(wire, text...), '\r', '\n')
}

func appendUint(wire []byte, value uint64) []byte {
	var digits [20]byte
	text := strconv.AppendUint(digits[:0], value, 10)
	wire = appendHeader(wire, '$', len(text))
	return append(append(wire, text...), '\r', '\n')
}

func appendFloat(wire []byte, value float64, bits int) []byte {
	var digits [32]byte
	text := strconv.AppendFloat(digits[:0], value, 'f', -1, bits)
	wire = appendHeader(wire, '$', len(text))
	return append(append(wire, text...), '\r', '\n')
}

// argText renders an argument as it would be sent, for keys and command names.
func argText(arg any) string {
	switch value := arg.(type) {
	case string:
		return value
	case []byte:
		return string(value)
	}
	wire, ok := appendArg(nil, arg)
	if !ok {
		return fmt.Sprintf("%T", arg)
	}
	for i, c := range wire {
		if c == '\n' {
			return string(wire[i+1 : len(wire)-2])
		}
	}
	return ""
}
