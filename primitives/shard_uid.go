package primitives

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/troupe-chain/troupe/primitives/borsh"
)

// ShardUID identifies a shard's state on disk across layouts: the layout's version and the shard's
// id (nearcore ShardUId). It is local to the node; messages use ShardID.
type ShardUID struct {
	Version uint32
	ID      uint32
}

// NewShardUID returns the uid of a shard in a layout of the given version. It panics for ids of
// 2^32 and above, which do not occur.
func NewShardUID(version uint32, id ShardID) ShardUID {
	if id > 1<<32-1 {
		panic(fmt.Sprintf("primitives: shard id %d does not fit u32", id))
	}
	return ShardUID{version, uint32(id)}
}

// ShardID returns the shard's id.
func (u ShardUID) ShardID() ShardID { return ShardID(u.ID) }

// Compare orders by version, then id.
func (u ShardUID) Compare(o ShardUID) int {
	a, b := uint64(u.Version)<<32|uint64(u.ID), uint64(o.Version)<<32|uint64(o.ID)
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// Bytes returns u32 version ‖ u32 id, little-endian: the prefix of the shard's keys in nearcore's
// database.
func (u ShardUID) Bytes() (b [8]byte) {
	binary.LittleEndian.PutUint32(b[:4], u.Version)
	binary.LittleEndian.PutUint32(b[4:], u.ID)
	return b
}

// AppendBorsh appends the 8 bytes.
func (u ShardUID) AppendBorsh(b []byte) []byte {
	return borsh.AppendUint32(borsh.AppendUint32(b, u.Version), u.ID)
}

// DecodeBorsh reads the 8 bytes.
func (u *ShardUID) DecodeBorsh(r *borsh.Reader) { u.Version, u.ID = r.Uint32(), r.Uint32() }

// String returns "s{id}.v{version}".
func (u ShardUID) String() string {
	return "s" + strconv.FormatUint(uint64(u.ID), 10) + ".v" + strconv.FormatUint(uint64(u.Version), 10)
}

// ParseShardUID reads "s{id}.v{version}"; the errors carry nearcore's texts.
func ParseShardUID(text string) (ShardUID, error) {
	shard, version, ok := strings.Cut(text, ".")
	if !ok {
		return ShardUID{}, errors.New(`shard version and number must be separated by "."`)
	}
	version, ok = strings.CutPrefix(version, "v")
	if !ok {
		return ShardUID{}, errors.New(`shard version must start with "v"`)
	}
	v, err := parseRustUint(version, 32)
	if err != nil {
		return ShardUID{}, fmt.Errorf(`shard version after "v" must be a number, %w`, err)
	}
	shard, ok = strings.CutPrefix(shard, "s")
	if !ok {
		return ShardUID{}, errors.New(`shard id must start with "s"`)
	}
	id, err := parseRustUint(shard, 32)
	if err != nil {
		return ShardUID{}, fmt.Errorf(`shard id after "s" must be a number, %w`, err)
	}
	return ShardUID{uint32(v), uint32(id)}, nil
}

// parseRustUint parses decimal digits with an optional plus sign. Its errors have the texts of
// Rust's ParseIntError.
func parseRustUint(text string, width int) (uint64, error) {
	v, err := ParseBalance(text)
	if err != nil {
		return 0, err
	}
	if v.Hi != 0 || v.Lo>>(width-1)>>1 != 0 {
		return 0, errors.New("number too large to fit in target type")
	}
	return v.Lo, nil
}

// MarshalText returns "s{id}.v{version}".
func (u ShardUID) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalText parses "s{id}.v{version}".
func (u *ShardUID) UnmarshalText(text []byte) error {
	v, err := ParseShardUID(string(text))
	if err == nil {
		*u = v
	}
	return err
}

// UnmarshalJSON reads the text, or the old form {"version": v, "shard_id": id}.
func (u *ShardUID) UnmarshalJSON(in []byte) error {
	if in = bytes.TrimSpace(in); len(in) == 0 || in[0] != '{' {
		var text string
		if err := json.Unmarshal(in, &text); err != nil {
			return err
		}
		return u.UnmarshalText([]byte(text))
	}
	var old struct {
		Version *uint32 `json:"version"`
		ShardID *uint32 `json:"shard_id"`
	}
	d := json.NewDecoder(bytes.NewReader(in))
	d.DisallowUnknownFields()
	if err := d.Decode(&old); err != nil {
		return err
	}
	switch {
	case old.Version == nil:
		return errors.New("missing field `version`")
	case old.ShardID == nil:
		return errors.New("missing field `shard_id`")
	}
	*u = ShardUID{*old.Version, *old.ShardID}
	return nil
}
