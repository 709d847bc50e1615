package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/troupe-chain/troupe/primitives"
)

// MaxAccountData is the maximum length of an account data payload, in bytes. This node bans a peer
// that sends a longer payload.
const MaxAccountData = 10_000

// SignedPayload is an encoded payload signed by a validator key. A SignedPayload is relayed as
// received, because encoding its contents again may result in different bytes.
type SignedPayload struct {
	Payload   []byte
	Signature primitives.Signature // signature over Payload itself, not over its hash
}

// PeerAddr is an address where a peer can be dialled.
type PeerAddr struct {
	Addr   netip.AddrPort
	PeerID PeerID
}

// AccountData names the node of a validator and the node's proxies. Of several entries of a key,
// the entry with the highest (Version, Timestamp) is valid.
type AccountData struct {
	SignedPayload
	PeerID     PeerID
	AccountKey primitives.PublicKey // public key of the validator key that signed Payload
	Proxies    []PeerAddr           // nodes over which the validator is reachable; empty: reachable over T2 only
	Version    uint64
	Timestamp  Timestamp
	// Holds are the shards that the node always tracks, published in networks with Config.Sparing.
	// neard skips the field.
	Holds []primitives.ShardID
}

// holdsField is the field number of Holds. The number is far from neard's field numbers. The field
// contains the shards as u64.
const holdsField = 1001

// OwnedAccount proves in a handshake that the sender owns a validator key.
type OwnedAccount struct {
	SignedPayload
	AccountKey primitives.PublicKey
	PeerID     PeerID
	Timestamp  Timestamp
}

// AccountsData carries account data, complete or incremental, and may request all data of the
// receiver.
type AccountsData struct {
	Data                            []*AccountData
	Incremental, RequestingFullSync bool
}

// Kind returns KindAccountsData.
func (*AccountsData) Kind() Kind { return KindAccountsData }

// Verify returns whether key has signed the payload.
func (p *SignedPayload) Verify(key primitives.PublicKey) bool {
	return p.Signature.Verify(p.Payload, key)
}

// IsNewer returns whether d replaces the entry old.
func (d *AccountData) IsNewer(old *AccountData) bool {
	if d.Version != old.Version {
		return d.Version > old.Version
	}
	return d.Timestamp.Compare(old.Timestamp) > 0
}

// Sign encodes the payload and signs it. Sign sets AccountKey to the public key. Sign fails if the
// payload exceeds MaxAccountData, because peers would reject such a payload.
func (d *AccountData) Sign(key primitives.SecretKey) error {
	d.AccountKey = key.PublicKey()
	d.Payload = d.appendPayload(nil)
	if len(d.Payload) > MaxAccountData {
		return fmt.Errorf("account data has %d bytes, the limit is %d", len(d.Payload), MaxAccountData)
	}
	d.Signature = key.Sign(d.Payload)
	return nil
}

// appendPayload appends an AccountKeyPayload, with the fields in neard's order.
func (d *AccountData) appendPayload(b []byte) []byte {
	return appendMessage(b, 2, func(b []byte) []byte {
		b = appendBorsh(appendBorsh(b, 5, d.PeerID), 6, d.AccountKey)
		for _, p := range d.Proxies {
			b = appendMessage(b, 2, func(b []byte) []byte { return appendBorsh(appendProtoAddr(b, 1, p.Addr), 2, p.PeerID) })
		}
		var holds []byte
		for _, id := range d.Holds {
			holds = binary.LittleEndian.AppendUint64(holds, uint64(id))
		}
		return appendBytes(appendTimestamp(appendUint(b, 7, d.Version), 4, d.Timestamp), holdsField, holds)
	})
}

// Sign encodes the payload and signs it. It sets AccountKey to the public key.
func (o *OwnedAccount) Sign(key primitives.SecretKey) {
	o.AccountKey = key.PublicKey()
	o.Payload = o.appendPayload(nil)
	o.Signature = key.Sign(o.Payload)
}

func (o *OwnedAccount) appendPayload(b []byte) []byte {
	return appendMessage(b, 3, func(b []byte) []byte {
		return appendTimestamp(appendBorsh(appendBorsh(b, 1, o.AccountKey), 2, o.PeerID), 3, o.Timestamp)
	})
}

func (p *SignedPayload) appendFields(b []byte) []byte {
	return appendBorsh(appendBytes(b, 1, p.Payload), 2, p.Signature)
}

func (m *AccountsData) appendFields(b []byte) []byte {
	for _, d := range m.Data {
		b = appendMessage(b, 1, d.SignedPayload.appendFields)
	}
	return appendBool(appendBool(b, 2, m.Incremental), 3, m.RequestingFullSync)
}

// payload decodes a signed payload. payload returns the last message in the payload with its field
// number.
func (c *conversion) payload(in []byte) (p SignedPayload, of item) {
	for it := range accountKeySignedPayload.items(in) {
		if it.num == 1 {
			p.Payload = bytes.Clone(it.b) // copy, so that the stored payload does not keep a long frame in memory
		}
	}
	if err := accountKeyPayload.check(p.Payload); err != nil {
		c.fail("payload: %w", err)
		return p, of
	}
	for of = range accountKeyPayload.items(p.Payload) {
	}
	p.Signature = *borshOf[primitives.Signature](c, accountKeySignedPayload, in, 2)
	return p, of
}

func (c *conversion) accountData(in []byte) *AccountData {
	p, of := c.payload(in)
	if of.num != 2 {
		c.fail("payload is not account data")
		return nil
	}
	d := &AccountData{SignedPayload: p}
	d.PeerID = *borshOf[PeerID](c, accountData, of.b, 5)
	d.AccountKey = *borshOf[primitives.PublicKey](c, accountData, of.b, 6)
	for it := range c.items(accountData, of.b) {
		switch it.num {
		case 2:
			a := PeerAddr{Addr: c.protoAddr(c.sub(peerAddr, it.b, 1))}
			a.PeerID = *borshOf[PeerID](c, peerAddr, it.b, 2)
			d.Proxies = append(d.Proxies, a)
		case 7:
			d.Version = it.v
		case holdsField:
			d.Holds = nil
			// Any other length means that another program uses this field number.
			for b := it.b; len(it.b)%8 == 0 && len(b) > 0; b = b[8:] {
				d.Holds = append(d.Holds, primitives.ShardID(binary.LittleEndian.Uint64(b)))
			}
		}
	}
	d.Timestamp = c.timestamp(c.sub(accountData, of.b, 4))
	return d
}

func (c *conversion) ownedAccount(in []byte) *OwnedAccount {
	p, of := c.payload(in)
	if of.num != 3 {
		c.fail("payload is not an owned account")
		return nil
	}
	o := &OwnedAccount{SignedPayload: p}
	o.AccountKey = *borshOf[primitives.PublicKey](c, ownedAccount, of.b, 1)
	o.PeerID = *borshOf[PeerID](c, ownedAccount, of.b, 2)
	o.Timestamp = c.timestamp(c.sub(ownedAccount, of.b, 3))
	return o
}

func readAccountsData(in []byte) (Message, error) {
	m, c := new(AccountsData), conversion{}
	for it := range c.items(accountsData, in) {
		switch it.num {
		case 1:
			m.Data = append(m.Data, c.accountData(it.b))
		case 2:
			m.Incremental = it.v != 0
		case 3:
			m.RequestingFullSync = it.v != 0
		}
	}
	return c.done(m)
}
