package primitives

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/troupe-chain/troupe/primitives/borsh"
)

// Encodings of shard layouts. Maps are sorted by key: integers by value in borsh, as strings in
// JSON.

// AppendBorsh appends the version's tag and its fields.
func (l ShardLayout) AppendBorsh(b []byte) []byte { return l.of.appendBorsh(append(b, l.of.tag())) }

// DecodeBorsh reads a layout. It only accepts the encoding that AppendBorsh makes: derived maps
// must match.
func (l *ShardLayout) DecodeBorsh(r *borsh.Reader) {
	start := r.Rest()
	tag := r.Byte()
	var f interface {
		form() (shardLayoutForm, error)
	}
	switch tag {
	case 0:
		f = &shardLayoutV0JSON{NumShards: r.Uint64(), Version: r.Uint32()}
	case 1:
		j := &shardLayoutV1JSON{BoundaryAccounts: readAccountIDs(r)}
		if r.Option() {
			m := notNil(borsh.Slice(r, 4, readShardIDs))
			j.ShardsSplitMap = &m
		}
		if r.Option() {
			m := readShardIDs(r)
			j.ToParentShardMap = &m
		}
		j.Version = r.Uint32()
		f = j
	case 2:
		j := &shardLayoutV2JSON{BoundaryAccounts: readAccountIDs(r), ShardIDs: readShardIDs(r)}
		j.IDToIndexMap = readMap(r, readShardID, readShardIndex)
		j.IndexToIDMap = readMap(r, readShardIndex, readShardID)
		if r.Option() {
			j.ShardsSplitMap = readMap(r, readShardID, readShardIDs)
		}
		if r.Option() {
			j.ShardsParentMap = readMap(r, readShardID, readShardID)
		}
		j.Version = r.Uint32()
		f = j
	case 3:
		f = &shardLayoutV3JSON{
			BoundaryAccounts: readAccountIDs(r), ShardIDs: readShardIDs(r),
			IDToIndexMap:   readMap(r, readShardID, readShardIndex),
			ShardsSplitMap: readMap(r, readShardID, readShardIDs), LastSplit: readShardID(r),
		}
		readMap(r, readShardID, readShardIDs) // skips the ancestors; they are compared below
	default:
		if r.Err() == nil {
			r.BadTag("ShardLayout", tag)
		}
	}
	if r.Err() != nil {
		return
	}
	form, err := f.form()
	if err != nil {
		r.Fail(err)
		return
	}
	out := ShardLayout{form}
	if !bytes.Equal(out.AppendBorsh(nil), start[:len(start)-r.Remaining()]) {
		r.Fail(fmt.Errorf("%w: the bytes are not the canonical encoding of the layout", ErrLayout))
		return
	}
	*l = out
}

// MarshalJSON returns {"V2": {...}}, as in genesis.json and protocol_config; null for no layout.
func (l ShardLayout) MarshalJSON() ([]byte, error) {
	if l.of == nil {
		return []byte("null"), nil
	}
	body, err := json.Marshal(l.of.json())
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, `{"V%d":%s}`, l.of.tag(), body), nil
}

// UnmarshalJSON reads {"V2": {...}}.
func (l *ShardLayout) UnmarshalJSON(in []byte) error {
	var byTag map[string]json.RawMessage
	if err := json.Unmarshal(in, &byTag); err != nil {
		return fmt.Errorf("shard layout: %w", err)
	}
	if len(byTag) != 1 {
		return fmt.Errorf("%w: the object has %d keys, want one version", ErrLayout, len(byTag))
	}
	for name, body := range byTag { // byTag has exactly one member
		var f interface {
			form() (shardLayoutForm, error)
		}
		switch name {
		case "V0":
			f = new(shardLayoutV0JSON)
		case "V1":
			f = new(shardLayoutV1JSON)
		case "V2":
			f = new(shardLayoutV2JSON)
		case "V3":
			f = new(shardLayoutV3JSON)
		default:
			return fmt.Errorf("%w: unknown variant `%s`, expected one of `V0`, `V1`, `V2`, `V3`", ErrLayout, name)
		}
		if err := json.Unmarshal(body, f); err != nil {
			return fmt.Errorf("shard layout %s: %w", name, err)
		}
		form, err := f.form()
		if err != nil {
			return err
		}
		*l = ShardLayout{form}
	}
	return nil
}

func appendAccountIDs(b []byte, ids []AccountID) []byte {
	return borsh.AppendSlice(b, ids, func(b []byte, a *AccountID) []byte { return a.AppendBorsh(b) })
}

func readAccountIDs(r *borsh.Reader) []AccountID {
	return borsh.Slice(r, 4+MinAccountIDLen, ReadAccountID)
}

func appendShardIDs(b []byte, ids []ShardID) []byte {
	b = borsh.AppendLen(b, len(ids))
	for _, id := range ids {
		b = borsh.AppendUint64(b, uint64(id))
	}
	return b
}

func readShardID(r *borsh.Reader) ShardID       { return ShardID(r.Uint64()) }
func readShardIndex(r *borsh.Reader) ShardIndex { return ShardIndex(r.Uint64()) }
func readShardIDs(r *borsh.Reader) []ShardID    { return borsh.Slice(r, 8, readShardID) }

// appendIDToIndex appends the map from id to index.
func appendIDToIndex(b []byte, ids []ShardID) []byte {
	order := countIDs(len(ids)) // indices in the order of their ids
	slices.SortFunc(order, func(i, j ShardID) int {
		if ids[i] < ids[j] {
			return -1
		}
		return 1
	})
	b = borsh.AppendLen(b, len(ids))
	for _, i := range order {
		b = borsh.AppendUint64(borsh.AppendUint64(b, uint64(ids[i])), uint64(i))
	}
	return b
}

func appendSplitMap(b []byte, m map[ShardID][]ShardID) []byte {
	b = borsh.AppendLen(b, len(m))
	for _, id := range slices.Sorted(maps.Keys(m)) {
		b = appendShardIDs(borsh.AppendUint64(b, uint64(id)), m[id])
	}
	return b
}

// readMap reads a map in any order; the result is never nil.
func readMap[K comparable, V any](r *borsh.Reader, key func(*borsh.Reader) K, value func(*borsh.Reader) V) map[K]V {
	m := make(map[K]V)
	for range r.Len(12) { // an item has a u64 and at least a count
		k := key(r)
		m[k] = value(r)
		if r.Err() != nil {
			break
		}
	}
	return m
}
