package primitives

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/primitives/borsh"
)

// TestAccountV2BeginsWithTag: an account of version 1 has no tag, one of version 2 begins with 16
// bytes of FF and tag 0.
func TestAccountV2BeginsWithTag(t *testing.T) {
	t.Parallel()
	zeros := strings.Repeat("00", 32)
	v1 := Account{Version: AccountV1, Amount: Yocto(1), Locked: Yocto(2), StorageUsage: 182}
	if got, want := hex.EncodeToString(v1.AppendBorsh(nil)), "01"+zeros[:30]+"02"+zeros[:30]+zeros+"b600000000000000"; got != want {
		t.Errorf("V1 = %s, want %s", got, want)
	}
	v2 := v1
	v2.SetContract(AccountContract{Kind: ContractGlobalAccount, Account: "ab"})
	head := strings.Repeat("ff", 16) + "00" + "01" + zeros[:30] + "02" + zeros[:30] + "b600000000000000"
	if got, want := hex.EncodeToString(v2.AppendBorsh(nil)), head+"03020000006162"; got != want {
		t.Errorf("V2 = %s, want %s", got, want)
	}
	v2.SetContract(AccountContract{}) // stays V2
	if got, want := hex.EncodeToString(v2.AppendBorsh(nil)), head+"00"; got != want {
		t.Errorf("V2 without a contract = %s, want %s", got, want)
	}
}

// TestApprovalsAreSignedUnhashed: approvals and endorsements are signed as they are; headers,
// chunks, optimistic blocks, transactions and delegate actions by a hash of 32 bytes.
func TestApprovalsAreSignedUnhashed(t *testing.T) {
	t.Parallel()
	tip := Hash{0xab}
	endorse, skip := NewApprovalInner(tip, 4, 5), NewApprovalInner(tip, 4, 6)
	chunk := "cd" + strings.Repeat("00", 31)
	for _, tt := range []struct{ name, got, want string }{
		{"endorsement of a tip", hex.EncodeToString(endorse.SignedBytes(5)), "00ab" + strings.Repeat("00", 31) + "0500000000000000"},
		{"skip", hex.EncodeToString(skip.SignedBytes(6)), "0104000000000000000600000000000000"},
		{"chunk endorsement", hex.EncodeToString(ChunkEndorsementBytes(Hash{0xcd})), chunk + "10000000" + hex.EncodeToString([]byte("ChunkEndorsement"))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.got != tt.want {
				t.Errorf("signed bytes %s, want %s", tt.got, tt.want)
			}
		})
	}
	o := OptimisticBlock{Height: 3, Signature: ZeroED25519Signature}
	raw := o.AppendBorsh(nil)
	if got, want := o.Hash(), HashBytes(raw[:len(raw)-65]); got != want || string(raw[len(raw)-65-15:len(raw)-65]) != "OptimisticBlock" {
		t.Errorf("hash of an optimistic block = %v, want that of all but the signature, %v", got, want)
	}
	b := sampleBlock().Header
	rest := HashBytes(b.BlockHeaderInnerRest.appendVersion(nil, HeaderV6))
	if got, want := b.Hash(), CombineHash(CombineHash(HashBorsh(&b.BlockHeaderInnerLite), rest), b.PrevHash); got != want {
		t.Errorf("hash of a header = %v, want %v", got, want)
	}
}

// TestHighBitSignatureDoesNotDecode: an ed25519 signature with one of the top three bits of its
// last byte set does not decode, nor does a value that contains it.
func TestHighBitSignatureDoesNotDecode(t *testing.T) {
	t.Parallel()
	for _, bit := range []byte{0x20, 0x40, 0x80} {
		raw := []byte(ZeroED25519Signature)
		raw[64] |= bit
		var s Signature
		if err := borsh.Unmarshal(raw, &s); err == nil {
			t.Errorf("bit %#x: the signature decodes", bit)
		}
		var tx SignedTransaction
		whole := NewSignedTransaction(classicTransaction(), Signature(raw)).AppendBorsh(nil)
		if err := borsh.Unmarshal(whole, &tx); err == nil {
			t.Errorf("bit %#x: the transaction decodes", bit)
		}
		raw[64] ^= bit | 0x1f // other bits are legal here
		if err := borsh.Unmarshal(raw, &s); err != nil {
			t.Errorf("last byte %#x: %v", raw[64], err)
		}
	}
	secp := append([]byte{1}, make([]byte, 65)...)
	secp[65] = 0xff
	var s Signature
	if err := borsh.Unmarshal(secp, &s); err != nil {
		t.Errorf("a secp256k1 signature is checked when it is verified, not here: %v", err)
	}
}
