package primitives

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"math/bits"
	"slices"
	"strings"

	"golang.org/x/crypto/sha3"

	"github.com/troupe-chain/troupe/primitives/borsh"
)

// A universal account (0u...) is named by the hash of its initial state: contract code, storage and
// access keys. The action that creates it carries the state as bytes, and the id commits to exactly
// these bytes. From CanonicalUniversalStateInit on only the canonical encoding is valid, so that a
// state has one id (near-primitives 0.38.0 src/universal_state_init.rs).

// RawStateInit is the borsh encoding of a universal account's initial state, as an action carries
// it. It may be any bytes: Decode validates them.
type RawStateInit []byte

// UniversalStateInitV1 is a decoded RawStateInit. Data is sorted by key and AccessKeys by scheme
// and bytes, without duplicates.
type UniversalStateInitV1 struct {
	Code       *GlobalContractID // nil: no code
	Data       []StateEntry
	AccessKeys []PublicKeyHandle // keys with full access
}

// Errors of Decode (near-primitives-core 0.38.0 src/universal_state_init.rs StateInitError).
var (
	ErrStateInitMalformed    = errors.New("bytes do not decode into a universal state init")
	ErrStateInitNonCanonical = errors.New("state init is not in canonical borsh form")
)

// StateInitExitStatus returns what the host function universal_state_init_to_account_id returns for
// an error of Decode: 1 malformed, 2 not canonical; 0 for nil.
func StateInitExitStatus(err error) uint64 {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, ErrStateInitMalformed):
		return 1
	case errors.Is(err, ErrStateInitNonCanonical):
		return 2
	}
	panic(fmt.Sprintf("primitives: no exit status of %v", err))
}

// MinHandleLen is the length of the shortest encoding of a PublicKeyHandle, in bytes.
const MinHandleLen = 33

// AppendBorsh appends tag 0 (V1), code, data, access keys. The encoding is canonical if Data and
// AccessKeys are sorted and without duplicates.
func (s *UniversalStateInitV1) AppendBorsh(b []byte) []byte {
	b = append(b, 0)
	if s.Code == nil {
		b = append(b, 0)
	} else {
		b = s.Code.AppendBorsh(append(b, 1))
	}
	b = AppendStateEntries(b, s.Data)
	return borsh.AppendSlice(b, s.AccessKeys, func(b []byte, h *PublicKeyHandle) []byte { return h.AppendBorsh(b) })
}

// DecodeBorsh reads what AppendBorsh writes. Entries and keys may come in any order and more than
// once, as in ReadStateEntries; r is then loose.
func (s *UniversalStateInitV1) DecodeBorsh(r *borsh.Reader) {
	*s = UniversalStateInitV1{}
	if tag := r.Byte(); tag != 0 {
		r.BadTag("UniversalStateInit", tag)
		return
	}
	if r.Option() {
		s.Code = new(GlobalContractID)
		s.Code.DecodeBorsh(r)
	}
	s.Data = ReadStateEntries(r)
	s.AccessKeys = readHandleSet(r)
}

// readHandleSet reads a set of handles and returns it sorted. Any order and repetitions are
// accepted, since borsh-rs collects a BTreeSet.
func readHandleSet(r *borsh.Reader) []PublicKeyHandle {
	list := borsh.Slice(r, MinHandleLen, ReadPublicKeyHandle)
	for i := 1; i < len(list); i++ {
		if list[i-1] >= list[i] {
			r.Loosen()
			slices.Sort(list)
			return slices.Compact(list)
		}
	}
	return list
}

// Encode returns the encoding. Data and AccessKeys must be sorted and without duplicates.
func (s *UniversalStateInitV1) Encode() RawStateInit { return s.AppendBorsh(nil) }

// DerivedAccount returns the id of the account that s makes.
func (s *UniversalStateInitV1) DerivedAccount() AccountID { return s.Encode().DerivedAccount() }

// HasKey returns whether h is one of the access keys.
func (s *UniversalStateInitV1) HasKey(h PublicKeyHandle) bool {
	_, found := slices.BinarySearch(s.AccessKeys, h)
	return found
}

// Decode decodes the canonical encoding, which is required from CanonicalUniversalStateInit on.
// Errors: those of Check. Decode does not copy bytes that it refuses.
func (raw RawStateInit) Decode() (*UniversalStateInitV1, error) {
	if err := raw.Check(); err != nil {
		return nil, err
	}
	return raw.DecodeLenient()
}

// Check returns the error of Decode without decoding. It copies nothing. Errors:
// ErrStateInitMalformed, ErrStateInitNonCanonical.
func (raw RawStateInit) Check() error {
	_, canonical, err := raw.scan(false)
	if err == nil && !canonical {
		return ErrStateInitNonCanonical
	}
	return err
}

// DecodeLenient decodes any encoding. It does not decide validity, except before
// CanonicalUniversalStateInit. Errors: ErrStateInitMalformed.
func (raw RawStateInit) DecodeLenient() (*UniversalStateInitV1, error) {
	r := borsh.NewReader(raw)
	s := new(UniversalStateInitV1)
	s.DecodeBorsh(r)
	if r.Close() != nil {
		return nil, ErrStateInitMalformed
	}
	return s, nil
}

// DerivedAccount returns the id of the account that the bytes make, whether or not the bytes are
// valid: 0u and the sha3-256 hash in base32.
func (raw RawStateInit) DerivedAccount() AccountID { return UniversalID(sha3.Sum256(raw)) }

// StateInitCounts is what a state init is charged for.
type StateInitCounts struct {
	Bytes   uint64 // length of the encoding
	Entries uint64 // number of entries of the data
	Keys    uint64
}

// Counts returns what an action with these bytes is charged for, in every protocol version: the
// entries and keys of the lenient decoding, 0 if that decoding fails.
func (raw RawStateInit) Counts() StateInitCounts {
	c, _, _ := raw.scan(true)
	return c
}

// SendCounts returns what a contract is charged for bytes that it passes to
// promise_batch_action_universal_state_init. If strict is set, bytes that Decode refuses count as
// the entries and keys that their length could hold; otherwise the result is that of Counts. strict
// is whether CanonicalUniversalStateInit is on.
func (raw RawStateInit) SendCounts(strict bool) StateInitCounts {
	if !strict {
		return raw.Counts()
	}
	c, canonical, err := raw.scan(false)
	if err != nil || !canonical {
		return upperCounts(c.Bytes)
	}
	return c
}

// upperCounts returns the most entries that an encoding of n bytes without keys can hold, and the
// most keys that an encoding of n bytes without entries can hold. An empty entry is 8 bytes.
// Version, code and the number of entries precede the entries, and the number of keys precedes the
// keys.
func upperCounts(n uint64) StateInitCounts {
	const beforeEntries, beforeKeys, entry = 1 + 1 + 4, 1 + 1 + 4 + 4, 8
	ceil := func(n, part uint64) uint64 { return n/part + min(n%part, 1) }
	return StateInitCounts{
		Bytes: n, Entries: ceil(n-min(n, beforeEntries), entry), Keys: ceil(n-min(n, beforeKeys), MinHandleLen),
	}
}

// scan counts without copying anything. canonical is whether the bytes are the encoding of the
// value to which they decode. Only the order and the repetition of entries and keys can differ,
// because every other value has one encoding. For bytes that are not canonical, scan counts the
// entries and keys only if exact is set, because this count takes time. For bytes that do not
// decode, scan returns the length of the bytes and counts of 0.
func (raw RawStateInit) scan(exact bool) (c StateInitCounts, canonical bool, err error) {
	c.Bytes = uint64(len(raw))
	r := borsh.NewReader(raw)
	var code GlobalContractID
	if r.Byte() != 0 {
		return c, false, ErrStateInitMalformed
	}
	if r.Option() {
		code.DecodeBorsh(r)
	}
	entries := scanKeys(r, 8, func(r *borsh.Reader) []byte {
		key := r.Bytes()
		r.Bytes()
		return key
	})
	keys := scanKeys(r, MinHandleLen, takeHandle)
	if r.Close() != nil {
		return c, false, ErrStateInitMalformed
	}
	if canonical = entries.sorted && keys.sorted; canonical || exact {
		c.Entries, c.Keys = uint64(entries.distinct()), uint64(keys.distinct())
	}
	return c, canonical, nil
}

// HasPostQuantumKey returns whether the bytes decode, in any order, and one of the access keys is
// of a post-quantum scheme.
func (raw RawStateInit) HasPostQuantumKey() bool {
	r := borsh.NewReader(raw)
	if r.Byte() != 0 {
		return false
	}
	if r.Option() {
		new(GlobalContractID).DecodeBorsh(r)
	}
	for n := r.Len(8); n > 0 && r.Err() == nil; n-- {
		r.Bytes()
		r.Bytes()
	}
	found := false
	for n := r.Len(MinHandleLen); n > 0 && r.Err() == nil; n-- {
		h := takeHandle(r)
		found = found || len(h) > 0 && KeyType(h[0]) == mlDSA65Hash
	}
	return r.Close() == nil && found
}

// scannedKeys are the keys of a list of items, and how to read these keys again.
type scannedKeys struct {
	n      int
	sorted bool // the keys ascend strictly
	items  borsh.Reader
	next   func(*borsh.Reader) []byte
}

// scanKeys reads a count, and as many items by calling next, which returns an item's key without
// copying it.
func scanKeys(r *borsh.Reader, minSize int, next func(*borsh.Reader) []byte) scannedKeys {
	k := scannedKeys{n: r.Len(minSize), sorted: true, next: next}
	k.items = *r
	var last []byte
	for i := range k.n {
		key := next(r)
		if r.Err() != nil {
			break
		}
		if i > 0 && bytes.Compare(last, key) >= 0 {
			k.sorted = false
		}
		last = key
	}
	return k
}

// keySeed is the seed of the hashes of distinct.
var keySeed = maphash.MakeSeed()

// distinct returns how many of the keys are distinct. The items must be valid. Any client can send
// a transaction with a hundred thousand unsorted keys, which are counted before anything else is
// known about it. The table with linear probing takes a fifth of the time of a map of strings.
func (k *scannedKeys) distinct() int {
	if k.sorted {
		return k.n
	}
	var keys [][]byte                               // not allocated for n keys, because all may be the same
	table := make([]uint32, 2<<bits.Len(uint(k.n))) // indices in keys plus one; at most half full
	mask := uint64(len(table) - 1)
	r := k.items
	for range k.n {
		key := k.next(&r)
		at := maphash.Bytes(keySeed, key) & mask
		for table[at] != 0 && !bytes.Equal(keys[table[at]-1], key) {
			at = (at + 1) & mask
		}
		if table[at] == 0 {
			keys = append(keys, key)
			table[at] = uint32(len(keys))
		}
	}
	return len(keys)
}

// universalPrefix begins the id of a universal account: scheme and hash function.
const universalPrefix = "0u"

// universalIDLen is the length of such an id: 256 bits are 52 symbols of 5 bits, with 4 zero bits
// at the end.
const universalIDLen = len(universalPrefix) + 52

// crockford is the lowercase base32 alphabet of Crockford, without i, l, o, u.
const crockford = "0123456789abcdefghjkmnpqrstvwxyz"

// UniversalID returns the id of the universal account with a hash (near-primitives-core 0.38.0
// src/universal_account_id.rs).
func UniversalID(hash [32]byte) AccountID {
	id := append(make([]byte, 0, universalIDLen), universalPrefix...)
	acc, bits := uint(0), 0 // the lowest bits of acc are not written yet
	for _, c := range hash {
		acc, bits = acc<<8|uint(c), bits+8
		for bits >= 5 {
			bits -= 5
			id = append(id, crockford[acc>>bits&31])
		}
	}
	return AccountID(append(id, crockford[acc<<(5-bits)&31]))
}

// IsUniversal returns whether the account id has the form of a universal account's id: the prefix
// and 52 symbols whose last 4 bits are zero. Without the feature UniversalAccounts such an id names
// an ordinary account.
func (a AccountID) IsUniversal() bool {
	if len(a) != universalIDLen || !strings.HasPrefix(string(a), universalPrefix) {
		return false
	}
	for i := len(universalPrefix); i < len(a); i++ {
		if strings.IndexByte(crockford, a[i]) < 0 {
			return false
		}
	}
	return a[len(a)-1] == '0' || a[len(a)-1] == 'g'
}

// AppendJSON appends nearcore's JSON, {"v1": {"code", "data", "access_keys"}}: empty members are
// left out, and data is a map of base64 in the order of its keys' bytes.
func (s *UniversalStateInitV1) AppendJSON(b []byte) []byte {
	b = append(b, `{"v1":{`...)
	comma := func(b []byte) []byte {
		if b[len(b)-1] != '{' {
			b = append(b, ',')
		}
		return b
	}
	if s.Code != nil {
		b = s.Code.AppendJSON(append(b, `"code":`...))
	}
	if len(s.Data) > 0 {
		b = append(comma(b), `"data":{`...)
		for i := range s.Data {
			b = append(comma(b), '"')
			b = append(base64.StdEncoding.AppendEncode(b, s.Data[i].Key), `":"`...)
			b = append(base64.StdEncoding.AppendEncode(b, s.Data[i].Value), '"')
		}
		b = append(b, '}')
	}
	if len(s.AccessKeys) > 0 {
		b = append(comma(b), `"access_keys":[`...)
		for i, h := range s.AccessKeys {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendKeyText(append(b, '"'), string(h)), '"')
		}
		b = append(b, ']')
	}
	return append(b, "}}"...)
}

// UnmarshalJSON reads what AppendJSON writes, with entries and keys in any order: of equal ones the
// last counts.
func (s *UniversalStateInitV1) UnmarshalJSON(in []byte) error {
	var j map[string]*struct {
		Code       *GlobalContractID `json:"code"`
		Data       map[string][]byte `json:"data"`
		AccessKeys []PublicKeyHandle `json:"access_keys"`
	}
	if err := json.Unmarshal(in, &j); err != nil {
		return fmt.Errorf("universal state init: %w", err)
	}
	v1 := j["v1"]
	if v1 == nil || len(j) != 1 {
		return errors.New("universal state init: want an object with the key v1")
	}
	*s = UniversalStateInitV1{Code: v1.Code, AccessKeys: slices.Compact(slices.Sorted(slices.Values(v1.AccessKeys)))}
	for text, value := range v1.Data {
		key, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return fmt.Errorf("universal state init: key %q of data: %w", text, err)
		}
		s.Data = append(s.Data, StateEntry{Key: key, Value: value})
	}
	slices.SortFunc(s.Data, func(a, b StateEntry) int { return bytes.Compare(a.Key, b.Key) })
	return nil
}
