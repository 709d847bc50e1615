package logic

import (
	"encoding/binary"
	"fmt"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// accountID reads an account id.
func (l *Logic) accountID(n, ptr uint64) (primitives.AccountID, error) {
	b, err := l.arg(n, ptr)
	if err != nil {
		return "", err
	}
	if err := l.gas.pay(parameters.ExtUTF8DecodingBase); err != nil {
		return "", err
	}
	if err := l.gas.payPer(parameters.ExtUTF8DecodingByte, uint64(len(b))); err != nil {
		return "", err
	}
	if !utf8.Valid(b) {
		return "", fail(BadUTF8)
	}
	if len(b) > primitives.MaxAccountIDLen { // checked before a string of that length is allocated
		return "", fail(InvalidAccountID)
	}
	id, err := primitives.ParseAccountID(string(b))
	if err != nil {
		return "", fail(InvalidAccountID)
	}
	return id, nil
}

// room returns the number of bytes that logs may still take. This limit also applies to strings
// that are no logs.
func (l *Logic) room() uint64 {
	return max(l.wasm.Limits.MaxTotalLogLength, l.logBytes) - l.logBytes
}

func (l *Logic) tooLong(more uint64) error {
	length := l.logBytes + more
	if length < more {
		length = ^uint64(0)
	}
	return limitError(TotalLogLengthExceeded, length, l.wasm.Limits.MaxTotalLogLength)
}

// utf8 reads a string of n bytes. If n is 2^64-1, the string ends before the next zero byte, and
// each byte is paid for separately.
func (l *Logic) utf8(n, ptr uint64) (string, error) {
	if err := l.gas.pay(parameters.ExtUTF8DecodingBase); err != nil {
		return "", err
	}
	room := l.room()
	var b []byte
	var err error
	if n != inRegister {
		if n > room {
			return "", l.tooLong(n)
		}
		b, err = l.read(ptr, n)
	} else {
		b, err = l.untilNUL(ptr, room)
	}
	if err != nil {
		return "", err
	}
	if err := l.gas.payPer(parameters.ExtUTF8DecodingByte, uint64(len(b))); err != nil {
		return "", err
	}
	if !utf8.Valid(b) {
		return "", fail(BadUTF8)
	}
	return string(b), nil
}

func (l *Logic) untilNUL(ptr, room uint64) ([]byte, error) {
	for i := uint64(0); ; i++ {
		if ptr+i < ptr {
			return nil, fail(MemoryAccessViolation)
		}
		b, err := l.read(ptr+i, 1)
		switch {
		case err != nil:
			return nil, err
		case b[0] == 0:
			return l.at(ptr, i)
		case i == room:
			return nil, l.tooLong(room + 1)
		}
	}
}

// utf16 reads a little-endian UTF-16 string of n bytes. n = 2^64-1 has the same meaning as in utf8.
func (l *Logic) utf16(n, ptr uint64) (string, error) {
	if err := l.gas.pay(parameters.ExtUTF16DecodingBase); err != nil {
		return "", err
	}
	room := l.room()
	var b []byte
	var err error
	if n != inRegister {
		b, err = l.read(ptr, n)
	} else {
		b, err = l.untilNUL16(ptr, room)
	}
	if err != nil {
		return "", err
	}
	n = uint64(len(b))
	if n%2 != 0 {
		return "", fail(BadUTF16)
	}
	if n > room {
		return "", l.tooLong(n)
	}
	if err := l.gas.payPer(parameters.ExtUTF16DecodingByte, n); err != nil {
		return "", err
	}
	return decodeUTF16(b)
}

func (l *Logic) untilNUL16(ptr, room uint64) ([]byte, error) {
	for n := uint64(0); ; {
		if ptr+n < ptr {
			return nil, fail(MemoryAccessViolation)
		}
		b, err := l.read(ptr+n, 2)
		if err != nil {
			return nil, err
		}
		if b[0]|b[1] == 0 {
			return l.at(ptr, n)
		}
		if n += 2; n > room { // cannot overflow: n is far below 2^64
			return nil, l.tooLong(n)
		}
	}
}

// decodeUTF16 converts UTF-16 to UTF-8. decodeUTF16 rejects unpaired surrogates.
func decodeUTF16(b []byte) (string, error) {
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); i += 2 {
		r := rune(binary.LittleEndian.Uint16(b[i:]))
		if utf16.IsSurrogate(r) {
			if i += 2; i >= len(b) {
				return "", fail(BadUTF16)
			}
			r = utf16.DecodeRune(r, rune(binary.LittleEndian.Uint16(b[i:])))
			if r == utf8.RuneError {
				return "", fail(BadUTF16)
			}
		}
		out = utf8.AppendRune(out, r)
	}
	return string(out), nil
}

// mayLog fails if the number of logs is at its limit.
func (l *Logic) mayLog() error {
	if limit := l.wasm.Limits.MaxNumberLogs; uint64(len(l.logs)) >= limit {
		return limitError(NumberOfLogsExceeded, 0, limit)
	}
	return nil
}

// payLog pays for a log of n bytes.
func (l *Logic) payLog(n int) error {
	if err := l.gas.pay(parameters.ExtLogBase); err != nil {
		return err
	}
	return l.gas.payPer(parameters.ExtLogByte, uint64(n))
}

// log adds a log. Decoding may have made a string longer, so log checks the total length again.
func (l *Logic) log(message string) error {
	l.logBytes += uint64(len(message))
	if l.logBytes > l.wasm.Limits.MaxTotalLogLength {
		return l.tooLong(uint64(len(message)))
	}
	l.logs = append(l.logs, message)
	return nil
}

// logUTF8 (len, ptr)
func logUTF8(l *Logic, a []uint64) (uint64, error) { return 0, l.logString(a, (*Logic).utf8) }

// logUTF16 (len, ptr)
func logUTF16(l *Logic, a []uint64) (uint64, error) { return 0, l.logString(a, (*Logic).utf16) }

func (l *Logic) logString(a []uint64, read func(l *Logic, n, ptr uint64) (string, error)) error {
	if err := l.begin(); err != nil {
		return err
	}
	if err := l.mayLog(); err != nil {
		return err
	}
	message, err := read(l, a[0], a[1])
	if err != nil {
		return err
	}
	if err := l.payLog(len(message)); err != nil {
		return err
	}
	return l.log(message)
}

// panicPlain ends the call with a GuestPanic of a fixed text.
func panicPlain(l *Logic, _ []uint64) (uint64, error) {
	if err := l.begin(); err != nil {
		return 0, err
	}
	return 0, &HostError{Kind: GuestPanic, Text: "explicit guest panic"}
}

// panicUTF8 (len, ptr) ends the call with a GuestPanic of the given text.
func panicUTF8(l *Logic, a []uint64) (uint64, error) {
	if err := l.begin(); err != nil {
		return 0, err
	}
	message, err := l.utf8(a[0], a[1])
	if err != nil {
		return 0, err
	}
	return 0, &HostError{Kind: GuestPanic, Text: message}
}

// abort (msg_ptr, filename_ptr, line, col) is AssemblyScript's panic. All parameters are i32. Each
// string follows its length in bytes.
func abort(l *Logic, a []uint64) (uint64, error) {
	if err := l.begin(); err != nil {
		return 0, err
	}
	msg, file, line, col := uint64(uint32(a[0])), uint64(uint32(a[1])), uint32(a[2]), uint32(a[3])
	if msg < 4 || file < 4 {
		return 0, fail(BadUTF16)
	}
	if err := l.mayLog(); err != nil {
		return 0, err
	}
	msgLen, err := l.readUint32(msg - 4)
	if err != nil {
		return 0, err
	}
	fileLen, err := l.readUint32(file - 4)
	if err != nil {
		return 0, err
	}
	text, err := l.utf16(msgLen, msg)
	if err != nil {
		return 0, err
	}
	name, err := l.utf16(fileLen, file)
	if err != nil {
		return 0, err
	}
	text = fmt.Sprintf(`%s, filename: "%s" line: %d col: %d`, text, name, line, col)
	if err := l.payLog(len(text)); err != nil {
		return 0, err
	}
	if err := l.log("ABORT: " + text); err != nil {
		return 0, err
	}
	return 0, &HostError{Kind: GuestPanic, Text: text}
}

func (l *Logic) readUint32(ptr uint64) (uint64, error) {
	b, err := l.read(ptr, 4)
	if err != nil {
		return 0, err
	}
	return uint64(binary.LittleEndian.Uint32(b)), nil
}
