package primitives

import (
	"errors"
	"fmt"
	"strings"

	"github.com/troupe-chain/troupe/primitives/borsh"
)

// AccountID is a valid account name, ordered by its bytes. Only ParseAccountID and the decoders
// make one from untrusted data.
type AccountID string

// SystemAccount is the predecessor of refunds and the receiver of global contract distributions.
const SystemAccount AccountID = "system"

// Lengths of an account id in bytes.
const (
	MinAccountIDLen = 2
	MaxAccountIDLen = 64
)

// Errors of ParseAccountID. The texts are those of near-account-id 3.0.0.
var (
	ErrAccountIDTooLong   = errors.New("the Account ID is too long")
	ErrAccountIDTooShort  = errors.New("the Account ID is too short")
	ErrAccountIDSeparator = errors.New("the Account ID has a redundant separator")
	ErrAccountIDChar      = errors.New("the Account ID contains an invalid character")
)

// AccountIDError is the error of an invalid account id, with the offending character.
type AccountIDError struct {
	Kind  error // one of the ErrAccountID values
	Char  rune
	Index int // position of Char in the id, in bytes
}

// Error is near-account-id's text.
func (e *AccountIDError) Error() string {
	char := []byte{'"'}
	if e.Char != '"' { // Rust does not escape the double quote in a char literal
		char = AppendRustChar(nil, e.Char)
	}
	return fmt.Sprintf("%v '%s' at index %d", e.Kind, char, e.Index)
}

// Unwrap returns the kind.
func (e *AccountIDError) Unwrap() error { return e.Kind }

// ParseAccountID checks the rules of near-account-id 3.0.0: 2 to 64 bytes, which are [a-z0-9] with
// single separators (-, _ or .) between them.
func ParseAccountID(text string) (AccountID, error) {
	if len(text) < MinAccountIDLen {
		return "", ErrAccountIDTooShort
	}
	if len(text) > MaxAccountIDLen {
		return "", ErrAccountIDTooLong
	}
	lastSeparator := true
	for i := range len(text) {
		switch c := text[i]; {
		case c >= 'a' && c <= 'z' || c >= '0' && c <= '9':
			lastSeparator = false
		case c == '-' || c == '_' || c == '.':
			if lastSeparator {
				return "", &AccountIDError{Kind: ErrAccountIDSeparator, Char: rune(c), Index: i}
			}
			lastSeparator = true
		default:
			r := []rune(text[i:])[0]
			return "", &AccountIDError{Kind: ErrAccountIDChar, Char: r, Index: i}
		}
	}
	if lastSeparator {
		return "", &AccountIDError{Kind: ErrAccountIDSeparator, Char: rune(text[len(text)-1]), Index: len(text) - 1}
	}
	return AccountID(text), nil
}

// AccountKind distinguishes named accounts from ids derived from keys, addresses and state inits.
type AccountKind byte

// The kinds (near-account-id 3.0.0 AccountType).
const (
	NamedAccount         AccountKind = iota
	NearImplicitAccount              // 64 hex digits: an ed25519 public key
	EthImplicitAccount               // 0x and 40 hex digits
	DeterministicAccount             // 0s and 40 hex digits
	UniversalAccount                 // 0u and 52 Crockford base32 symbols: a sha3-256 hash
)

// Kind returns the kind of the account id. universal is whether the feature UniversalAccounts is
// on: without the feature, the id of a universal account counts as the id of a named account.
func (a AccountID) Kind(universal bool) AccountKind {
	switch {
	case len(a) == 64 && isHex(a):
		return NearImplicitAccount
	case len(a) == 42 && strings.HasPrefix(string(a), "0x") && isHex(a[2:]):
		return EthImplicitAccount
	case len(a) == 42 && strings.HasPrefix(string(a), "0s") && isHex(a[2:]):
		return DeterministicAccount
	case universal && a.IsUniversal():
		return UniversalAccount
	}
	return NamedAccount
}

func isHex(s AccountID) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// IsImplicit returns whether the account is of a kind that a transfer can create. universal is as
// in Kind.
func (a AccountID) IsImplicit(universal bool) bool { return a.Kind(universal) != NamedAccount }

// IsTopLevel returns whether the account id has no dot and is not "system".
func (a AccountID) IsTopLevel() bool { return a != SystemAccount && !strings.Contains(string(a), ".") }

// IsSubAccountOf returns whether the account id is exactly one label below parent.
func (a AccountID) IsSubAccountOf(parent AccountID) bool {
	label, ok := strings.CutSuffix(string(a), "."+string(parent))
	return ok && label != "" && !strings.Contains(label, ".")
}

// AppendBorsh appends the length and the bytes.
func (a AccountID) AppendBorsh(b []byte) []byte { return borsh.AppendString(b, string(a)) }

// DecodeBorsh reads and validates a name.
func (a *AccountID) DecodeBorsh(r *borsh.Reader) {
	s := r.String()
	if r.Err() != nil {
		return
	}
	id, err := ParseAccountID(s)
	if err != nil {
		r.Failf("invalid value: \"%s\", %w", s, err)
		return
	}
	*a = id
}

// ReadAccountID reads and validates a name.
func ReadAccountID(r *borsh.Reader) AccountID {
	var a AccountID
	a.DecodeBorsh(r)
	return a
}

// UnmarshalText validates a name.
func (a *AccountID) UnmarshalText(text []byte) error {
	id, err := ParseAccountID(string(text))
	if err == nil {
		*a = id
	}
	return err
}
