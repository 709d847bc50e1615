package console

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// unsigned is a script that compares what the page writes with what the node reads. Each line that
// it prints is an error.
const unsigned = `
globalThis.location = { href: 'http://127.0.0.1:1/console/' };
const { decode58, unsignedCall } = await import('./unsigned.js');
const { units } = await import('./sandbox.js');
const refused = (f) => { try { f(); return false; } catch { return true; } };
for (const { want, args, ...c } of CASES) {
  const got = Buffer.from(unsignedCall({ ...c, args: Buffer.from(args, 'base64') })).toString('base64');
  if (got !== want) console.log(c.method + ': ' + got + ', want ' + want);
}
if (!refused(() => decode58('0', 32)) || !refused(() => decode58('z'.repeat(60), 32))) console.log('no base58 of 32 bytes is decoded');
for (const [s, n, want] of [['1', 24, '1' + '0'.repeat(24)], ['0.5', 3, '500'], ['12.5', 24, '125' + '0'.repeat(23)], ['0', 6, '0'], ['007', 0, '7'], ['1_000', 0, '1000']]) if (units(s, n) !== want) console.log(s + ': ' + units(s, n));
for (const [s, n] of [['', 24], ['-1', 24], ['1.', 24], ['.5', 24], ['1.25', 1], ['1e3', 24], ['1,5', 24]]) if (!refused(() => units(s, n))) console.log(s + ' is an amount');
`

// TestUnsignedCallHasTheNodesEncoding: the page writes a transaction without a signature in the
// node's encoding, with keys of both types and the largest numbers, and reads amounts only if they
// are exact. It needs Node.js.
func TestUnsignedCallHasTheNodesEncoding(t *testing.T) {
	type call struct {
		Signer   string `json:"signer"`
		Key      string `json:"key"`
		Nonce    string `json:"nonce"`
		Receiver string `json:"receiver"`
		Block    string `json:"block"`
		Method   string `json:"method"`
		Args     []byte `json:"args"`
		Gas      string `json:"gas"`
		Deposit  string `json:"deposit"`
		Want     string `json:"want"`
	}
	most, err := primitives.ParseBalance("340282366920938463463374607431768211455")
	if err != nil {
		t.Fatal(err)
	}
	var calls []call
	for kind, amount := range map[primitives.KeyType]primitives.Balance{primitives.ED25519: most, primitives.SECP256K1: primitives.Yocto(1)} {
		key := primitives.SecretKeyFromSeed(kind, "near").PublicKey()
		nonce := uint64(math.MaxUint64) - uint64(kind)
		block := primitives.Hash{0, 0, 1, byte(kind)} // leading zeros
		f := &primitives.FunctionCall{Method: "méthode", Args: []byte{0, 255, byte(kind)}, Gas: math.MaxUint64, Deposit: amount}
		tx := primitives.Transaction{SignerID: "alice.near", PublicKey: key, Nonce: primitives.TransactionNonce{Nonce: primitives.Nonce(nonce)}, ReceiverID: "token.near",
			BlockHash: block, Actions: []primitives.Action{f}}
		signed := primitives.NewSignedTransaction(tx, primitives.Signature(strings.Repeat("\x00", 65)))
		calls = append(calls, call{"alice.near", key.String(), strconv.FormatUint(nonce, 10), "token.near", block.String(), f.Method, f.Args,
			strconv.FormatUint(uint64(f.Gas), 10), amount.String(), base64.StdEncoding.EncodeToString(signed.AppendBorsh(nil))})
	}
	cases, err := json.Marshal(calls)
	if err != nil {
		t.Fatal(err)
	}
	runScript(t, "const CASES = "+string(cases)+";\n"+unsigned)
}
