package refmodel

import (
	"fmt"
	"math/big"
	"strings"

	"golang.org/x/crypto/sha3"

	"github.com/troupe-chain/troupe/primitives"
)

// Universal accounts: their ids, the encoding of their state init, and the action that applies the
// state init (near-primitives 0.38.0 src/universal_state_init.rs; nearcore 2.14.0-rc.1
// runtime/runtime/src/universal_account_id.rs). The encoder and decoder here do not use those of
// package primitives.

const symbols = "0123456789abcdefghjkmnpqrstvwxyz"

// universalID returns the account id of a state init: the state init's hash, shifted left by 4 bits
// and written as 52 digits in base 32.
func universalID(raw []byte) primitives.AccountID {
	hash := sha3.Sum256(raw)
	n := new(big.Int).Lsh(new(big.Int).SetBytes(hash[:]), 4)
	digits := make([]byte, 52)
	for i := 51; i >= 0; i-- {
		var digit big.Int
		n.DivMod(n, big.NewInt(32), &digit)
		digits[i] = symbols[digit.Int64()]
	}
	return primitives.AccountID("0u" + string(digits))
}

// named0u returns whether a name has the form of a universal account id.
func named0u(id primitives.AccountID) bool {
	digits, ok := strings.CutPrefix(string(id), "0u")
	return ok && len(digits) == 52 && strings.Trim(digits, symbols) == "" && strings.ContainsAny(digits[51:], "0g")
}

// kind returns the kind of an account id under the world's rules. Before 88 no account is
// universal.
func (w *World) kind(id primitives.AccountID) primitives.AccountKind {
	if named0u(id) {
		if w.Rules >= 88 {
			return primitives.UniversalAccount
		}
		return primitives.NamedAccount
	}
	return id.Kind(false)
}

// initState is a decoded state init. Data and keys are in the order of its bytes.
type initState struct {
	code   *primitives.GlobalContractID
	data   []entry
	keys   []primitives.PublicKeyHandle
	sorted bool // true: data and keys are strictly ascending, as in the canonical encoding
}

type entry struct{ key, value string }

// distinct returns the numbers of distinct keys and of distinct entries.
func (s *initState) distinct() (keys, entries uint64) {
	k, e := map[primitives.PublicKeyHandle]bool{}, map[string]bool{}
	for _, h := range s.keys {
		k[h] = true
	}
	for _, x := range s.data {
		e[x.key] = true
	}
	return uint64(len(k)), uint64(len(e))
}

// cursor reads bytes from the front of a slice. ok becomes false when too few bytes are left.
type cursor struct {
	b  []byte
	ok bool
}

func (c *cursor) take(n int) []byte {
	if !c.ok || n < 0 || n > len(c.b) {
		c.ok = false
		return nil
	}
	out := c.b[:n]
	c.b = c.b[n:]
	return out
}

func (c *cursor) byte() byte {
	if b := c.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (c *cursor) number() int {
	n := 0
	for i, b := range c.take(4) {
		n |= int(b) << (8 * i)
	}
	return n
}

func (c *cursor) text() string { return string(c.take(c.number())) }

// readInit decodes a state init. It returns nil if the bytes are not a state init.
func readInit(raw []byte) *initState {
	c := &cursor{raw, true}
	s := &initState{sorted: true}
	if c.byte() != 0 {
		return nil
	}
	switch c.byte() {
	case 0:
	case 1:
		s.code = new(primitives.GlobalContractID)
		switch c.byte() {
		case 0:
			copy(s.code.Hash[:], c.take(len(s.code.Hash)))
		case 1:
			id, err := primitives.ParseAccountID(c.text())
			if err != nil {
				return nil
			}
			s.code.Account = id
		default:
			return nil
		}
	default:
		return nil
	}
	for n := c.number(); n > 0 && c.ok; n-- {
		e := entry{c.text(), c.text()}
		s.sorted = s.sorted && (len(s.data) == 0 || s.data[len(s.data)-1].key < e.key)
		s.data = append(s.data, e)
	}
	for n := c.number(); n > 0 && c.ok; n-- {
		size := 0
		if len(c.b) > 0 {
			size = map[byte]int{0: 32, 1: 64, 3: 32}[c.b[0]]
		}
		if size == 0 {
			return nil
		}
		h := primitives.PublicKeyHandle(c.take(1 + size))
		s.sorted = s.sorted && (len(s.keys) == 0 || s.keys[len(s.keys)-1] < h)
		s.keys = append(s.keys, h)
	}
	if !c.ok || len(c.b) > 0 {
		return nil
	}
	return s
}

// isCanonical returns whether bytes are the canonical encoding of a state init.
func isCanonical(raw []byte) bool {
	s := readInit(raw)
	return s != nil && s.sorted
}

// bytes encodes a state init in its current order, sorted or not.
func (s *initState) bytes() primitives.RawStateInit {
	number := func(b []byte, n int) []byte { return append(b, littleEndian(uint64(n))[:4]...) }
	text := func(b []byte, t string) []byte { return append(number(b, len(t)), t...) }
	b := []byte{0}
	switch {
	case s.code == nil:
		b = append(b, 0)
	case s.code.Account != "":
		b = text(append(b, 1, 1), string(s.code.Account))
	default:
		b = append(append(b, 1, 0), s.code.Hash[:]...)
	}
	b = number(b, len(s.data))
	for _, e := range s.data {
		b = text(text(b, e.key), e.value)
	}
	b = number(b, len(s.keys))
	for _, h := range s.keys {
		b = append(b, h...)
	}
	return b
}

// universalInit implements universal_account_id.rs action_universal_state_init.
func (x *receipt) universalInit(a *primitives.UniversalStateInit) *failure {
	if x.account == nil {
		x.appear()
		x.account.Bare, x.account.Nonce = true, x.firstNonce()
	}
	if !x.account.Bare {
		x.giveBack(a.Deposit)
		return nil
	}
	s := readInit(a.Init)
	nonce := max(x.account.Nonce, x.firstNonce())
	x.account.Bare, x.account.Nonce = false, 0
	if s.code != nil {
		if e := x.use(*s.code); e != nil {
			return e
		}
	}
	for _, e := range s.data {
		x.account.write(e.key, e.value)
	}
	for _, h := range s.keys {
		x.account.put(h, &Key{AccessKey: primitives.AccessKey{Nonce: nonce}})
	}
	return x.take(a.Deposit)
}

// initName describes a state init briefly.
func initName(raw primitives.RawStateInit) string {
	s := readInit(raw)
	if s == nil {
		return fmt.Sprintf("of %d bytes, malformed, of %s", len(raw), universalID(raw))
	}
	code := "no code"
	if s.code != nil {
		code = globalName(*s.code)
	}
	order := "sorted"
	if !s.sorted {
		order = "not sorted"
	}
	return fmt.Sprintf("of %s, %d entries, %d keys, %s, of %s", code, len(s.data), len(s.keys), order, universalID(raw))
}
