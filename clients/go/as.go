package tidemill

import (
	"encoding"
	"fmt"
	"reflect"
	"strings"
	"time"
)

// As converts a reply to T: strings, byte slices, booleans, integers and floats of any size,
// time.Duration (nanoseconds), encoding.TextUnmarshaler, any slice of these, maps with string keys,
// structs (from a map reply, by field name or a `redis:"name"` tag), and pointers, which are nil
// for a nil reply. Anything else is ErrType, nil where a value is needed ErrNil.
func As[T any](reply Reply) (T, error) {
	var value T
	err := Scan(reply, &value)
	return value, err
}

// Scan converts a reply into what target points to; see As.
func Scan(reply Reply, target any) error {
	if err := reply.Err(); err != nil {
		return err
	}
	pointer := reflect.ValueOf(target)
	if pointer.Kind() != reflect.Pointer || pointer.IsNil() {
		return fmt.Errorf("%w: scan target is no pointer", ErrArgument)
	}
	return scanValue(reply, pointer.Elem())
}

func scanValue(reply Reply, target reflect.Value) error {
	if target.Kind() == reflect.Pointer {
		if reply.IsNil() {
			target.SetZero()
			return nil
		}
		target.Set(reflect.New(target.Type().Elem()))
		return scanValue(reply, target.Elem())
	}
	if target.Type() == reflect.TypeFor[Reply]() {
		target.Set(reflect.ValueOf(reply))
		return nil
	}
	if unmarshaler, ok := target.Addr().Interface().(encoding.TextUnmarshaler); ok {
		text, err := reply.Text()
		if err != nil {
			return err
		}
		return unmarshaler.UnmarshalText([]byte(text))
	}
	switch target.Kind() {
	case reflect.Slice:
		return scanSlice(reply, target)
	case reflect.Map:
		return scanMap(reply, target)
	case reflect.Struct:
		return scanStruct(reply, target)
	}
	return scanScalar(reply, target)
}

func scanScalar(reply Reply, target reflect.Value) error {
	switch kind := target.Kind(); {
	case kind == reflect.String:
		text, err := reply.Text()
		target.SetString(text)
		return err
	case kind == reflect.Bool:
		value, err := reply.Bool()
		target.SetBool(value)
		return err
	case target.CanInt():
		return scanInt(reply, target)
	case target.CanUint():
		value, err := reply.uint64()
		if err == nil && target.OverflowUint(value) {
			return fmt.Errorf("%w: %d does not fit %s", ErrType, value, target.Type())
		}
		target.SetUint(value)
		return err
	case target.CanFloat():
		value, err := reply.Float64()
		if err == nil && target.OverflowFloat(value) {
			return fmt.Errorf("%w: %g does not fit %s", ErrType, value, target.Type())
		}
		target.SetFloat(value)
		return err
	case kind == reflect.Interface && target.NumMethod() == 0:
		target.Set(reflect.ValueOf(reply))
		return nil
	}
	return fmt.Errorf("%w: cannot scan into %s", ErrType, target.Type())
}

func scanInt(reply Reply, target reflect.Value) error {
	value, err := reply.Int64()
	if err != nil && target.Type() == reflect.TypeFor[time.Duration]() {
		if text, textErr := reply.Text(); textErr == nil {
			var d time.Duration
			if d, err = time.ParseDuration(text); err == nil {
				value = int64(d)
			}
		}
	}
	if err == nil && target.OverflowInt(value) {
		return fmt.Errorf("%w: %d does not fit %s", ErrType, value, target.Type())
	}
	target.SetInt(value)
	return err
}

func scanSlice(reply Reply, target reflect.Value) error {
	if target.Type().Elem().Kind() == reflect.Uint8 && reply.kind != KindArray &&
		reply.kind != KindSet {
		data, err := reply.Bytes()
		if err == nil {
			target.SetBytes(data)
		}
		return err
	}
	items, err := reply.Array()
	if err != nil {
		return err
	}
	slice := reflect.MakeSlice(target.Type(), len(items), len(items))
	for i, item := range items {
		if item.IsNil() {
			continue
		}
		if err := scanItem(item, slice.Index(i)); err != nil {
			return err
		}
	}
	target.Set(slice)
	return nil
}

// scanItem is scanValue for a part of a reply, which may be an error of its own.
func scanItem(item Reply, target reflect.Value) error {
	if err := item.Err(); err != nil {
		return err
	}
	return scanValue(item, target)
}

func scanMap(reply Reply, target reflect.Value) error {
	if target.Type().Key().Kind() != reflect.String {
		return fmt.Errorf("%w: map keys must be strings", ErrType)
	}
	pairs, err := reply.Pairs()
	if err != nil {
		return err
	}
	result := reflect.MakeMap(target.Type())
	for key, item := range pairs {
		value := reflect.New(target.Type().Elem()).Elem()
		if err := scanItem(item, value); err != nil {
			return err
		}
		result.SetMapIndex(reflect.ValueOf(key).Convert(target.Type().Key()), value)
	}
	target.Set(result)
	return nil
}

// scanStruct fills the exported fields that the reply names; the rest is left alone.
func scanStruct(reply Reply, target reflect.Value) error {
	fields, err := reply.Map()
	if err != nil {
		return err
	}
	for i := range target.NumField() {
		field := target.Type().Field(i)
		name := field.Tag.Get("redis")
		if name == "" {
			name = field.Name
		}
		item, found := fields[name]
		if !found {
			item, found = fields[strings.ToLower(name)]
		}
		if !found || !field.IsExported() || name == "-" {
			continue
		}
		if err := scanItem(item, target.Field(i)); err != nil {
			return fmt.Errorf("field %s: %w", field.Name, err)
		}
	}
	return nil
}
