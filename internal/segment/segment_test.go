package segment

import (
	"errors"
	"slices"
	"testing"
)

const head = "\x00asm\x01\x00\x00\x00"

// module has a custom section, a number of segments, and one segment "ab" at 8.
const module = head + "\x00\x03\x01x!" + "\x05\x03\x01\x00\x01" + "\x0c\x01\x01" + "\x0b\x08\x01\x00\x41\x08\x0b\x02ab"

func at(n uint32) func([]byte) (uint32, error) { return func([]byte) (uint32, error) { return n, nil } }

func TestAppend(t *testing.T) {
	for c, custom := range map[Custom]string{Keep: "\x00\x03\x01x!", Drop: ""} {
		for address, bytes := range map[uint32]string{9: "\x09", 64: "\xc0\x00", 0xffff0000: "\x80\x80\x7c"} {
			want := head + custom + "\x05\x03\x01\x00\x01" + "\x0c\x01\x02" + "\x0b" + string(rune(15+len(bytes))) +
				"\x02\x00\x41\x08\x0b\x02ab" + "\x00\x41" + bytes + "\x0b\x03xyz"
			got, err := Append([]byte(module), c, []byte("xyz"), at(address))
			if err != nil || string(got) != want {
				t.Errorf("keep %v, at %d: %v\n%q\n%q", c, address, err, got, want)
			}
		}
	}
	var seen []byte
	_, _ = Append([]byte(module), Keep, nil, func(data []byte) (uint32, error) {
		seen = slices.Clone(data)
		return 0, nil
	})
	if string(seen) != "\x01\x00\x41\x08\x0b\x02ab" {
		t.Errorf("place was given %q", seen)
	}
	odd := errors.New("odd")
	if _, err := Append([]byte(module), Keep, nil, func([]byte) (uint32, error) { return 0, odd }); !errors.Is(err, odd) {
		t.Error(err)
	}
}

func TestNoModule(t *testing.T) {
	for _, text := range []string{"", "\x00as", head, "\x00wsm\x01\x00\x00\x00", head + "\x05", head + "\x05\xff", head + "\x0b\x00", head + "\x0b\x05\x01",
		head + "\x05\x03\x01\x00\x01"} {
		if _, err := Append([]byte(text), Keep, nil, at(0)); !errors.Is(err, ErrModule) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
