package view

import (
	"encoding/base64"
	"strconv"

	"github.com/troupe-chain/troupe/primitives"
)

// AppendString appends s in quotes, escaped as serde_json does.
func AppendString(b []byte, s string) []byte { return primitives.AppendJSONString(b, s) }

// AppendHash appends base58 in quotes.
func AppendHash(b []byte, h *primitives.Hash) []byte {
	b, _ = h.AppendText(append(b, '"')) // never fails
	return append(b, '"')
}

// AppendBalance appends decimal digits in quotes.
func AppendBalance(b []byte, v primitives.Balance) []byte {
	return append(v.AppendText(append(b, '"')), '"')
}

// AppendBase64 appends padded standard base64 in quotes.
func AppendBase64(b, raw []byte) []byte {
	return append(base64.StdEncoding.AppendEncode(append(b, '"'), raw), '"')
}

// AppendKey appends the text of a key in quotes.
func AppendKey(b []byte, k primitives.PublicKey) []byte {
	b, _ = k.AppendText(append(b, '"')) // never fails
	return append(b, '"')
}

// AppendHandle appends the text of a key's handle in quotes.
func AppendHandle(b []byte, k primitives.PublicKeyHandle) []byte {
	b, _ = k.AppendText(append(b, '"')) // never fails
	return append(b, '"')
}

// AppendSignature appends the text of a signature in quotes, null for none.
func AppendSignature(b []byte, s primitives.Signature) []byte {
	if s == "" {
		return append(b, "null"...)
	}
	b, _ = s.AppendText(append(b, '"')) // never fails
	return append(b, '"')
}

// AppendAccountID appends a name in quotes; valid names need no escapes.
func AppendAccountID(b []byte, a primitives.AccountID) []byte {
	return append(append(append(b, '"'), a...), '"')
}

// appendUint appends decimal digits.
func appendUint[T ~uint16 | ~uint32 | ~uint64](b []byte, v T) []byte {
	return strconv.AppendUint(b, uint64(v), 10)
}

// appendUintString appends decimal digits in quotes.
func appendUintString[T ~uint64](b []byte, v T) []byte {
	return append(appendUint(append(b, '"'), v), '"')
}

func appendBool(b []byte, v bool) []byte { return strconv.AppendBool(b, v) }

// appendList appends [x,y,...].
func appendList[T any](b []byte, xs []T, one func([]byte, *T) []byte) []byte {
	b = append(b, '[')
	for i := range xs {
		if i > 0 {
			b = append(b, ',')
		}
		b = one(b, &xs[i])
	}
	return append(b, ']')
}

func appendUints[T ~uint16 | ~uint32 | ~uint64](b []byte, xs []T) []byte {
	return appendList(b, xs, func(b []byte, x *T) []byte { return appendUint(b, *x) })
}

func appendStrings(b []byte, ss []string) []byte {
	return appendList(b, ss, func(b []byte, s *string) []byte { return AppendString(b, *s) })
}

func appendSignatures(b []byte, ss []primitives.Signature) []byte {
	return appendList(b, ss, func(b []byte, s *primitives.Signature) []byte { return AppendSignature(b, *s) })
}

func appendBools(b []byte, vs []bool) []byte {
	return appendList(b, vs, func(b []byte, v *bool) []byte { return appendBool(b, *v) })
}
