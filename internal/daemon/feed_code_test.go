package daemon

import (
	"fmt"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// TestFeedServesCodeOfFailedDeployments: code of a failed deployment is in no account, and global
// code cannot be read by a view. A Troupe node serves both, in its documents and by JSON-RPC, so
// that a chain with such blocks can be followed by either.
func TestFeedServesCodeOfFailedDeployments(t *testing.T) {
	dirA := acrossShards(t, 12)
	a := unhurried(t, dirA)
	stop(t, a)
	dirs := []string{checkpoint(t, dirA), checkpoint(t, dirA)}
	a = unhurried(t, dirA)
	defer func() { stop(t, a) }()
	first := a.Engine.Head().Height()
	key := a.home.ValidatorKey
	nonce := primitives.Nonce(0)
	send := func(to primitives.AccountID, actions ...primitives.Action) {
		t.Helper()
		nonce++
		signed, _ := encode(draft(a, key, nonce, to, actions...), key)
		var status txStatus
		if cause := ask(t, a, "send_tx", map[string]any{"signed_tx_base64": signed, "wait_until": "NONE"}, &status); cause != "" {
			t.Fatalf("send_tx: %s", cause)
		}
		mineBy(t, a, `{"blocks":3}`)
	}
	code := func(i int) []byte { return append([]byte("\x00asm\x01\x00\x00\x00"), wasmNote(byte(i))...) }
	lost := primitives.SecretKeyFromSeed(primitives.ED25519, "nobody has it").PublicKey()
	// the action after the deployment fails
	send(key.AccountID, &primitives.DeployContract{Code: code(1)}, &primitives.DeleteKey{PublicKey: lost})
	// fails at a receiver in another shard
	send("near", &primitives.DeployContract{Code: code(2)})
	child := primitives.AccountID(fmt.Sprintf("x.%s", key.AccountID))
	send(child, &primitives.CreateAccount{}, &primitives.Transfer{Deposit: primitives.NEAR(5)}, &primitives.DeployContract{Code: code(3)}, &primitives.DeployContract{Code: code(4)},
		&primitives.DeleteKey{PublicKey: lost})
	send(key.AccountID, &primitives.DeployGlobalContract{Code: code(5), Mode: primitives.GlobalByCodeHash})
	for i, feed := range []string{"http://" + a.Addr.String(), "rpc:http://" + a.Addr.String()} {
		b := fed(t, dirs[i], feed)
		eventually(t, "in step by "+feed, func() bool { return b.Engine.Head().Hash == a.Engine.Head().Hash })
		sameRoots(t, a, b, first+1)
		stop(t, b)
	}
}
