package primitives

import "errors"

// DecodeBase58 decodes text into at most size bytes. Its errors carry bs58's texts, which RPC
// clients see; IsBase58TooLong tells the one that is about the value's size from those about
// characters.
func DecodeBase58(text string, size int) ([]byte, error) { return base58Decode(text, size) }

// IsBase58TooLong tells whether err says that the decoded value exceeds the size asked for.
func IsBase58TooLong(err error) bool { return errors.Is(err, errBase58TooLong) }
