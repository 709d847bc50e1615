package sandbox

import (
	"errors"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// TestUniversalAccountSendsItsStateInit: an account that has no key yet sends its own state init,
// again after one that failed, and then sends as other accounts do.
func TestUniversalAccountSendsItsStateInit(t *testing.T) {
	w, err := start(t).New(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	key := primitives.SecretKeyFromSeed(primitives.ED25519, "universal")
	state := primitives.UniversalStateInitV1{AccessKeys: []primitives.PublicKeyHandle{key.PublicKey().Handle()}}
	a := &Account{ID: state.DerivedAccount(), Key: key}
	if _, err := w.Send(t.Context(), a, a.ID, &primitives.UniversalStateInit{Init: state.Encode()}); err == nil {
		t.Error("an account that does not exist has sent its state init")
	}
	if _, err := w.Transfer(t.Context(), Near(), a.ID, primitives.NEAR(5)); err != nil {
		t.Fatal(err)
	}
	init := &primitives.UniversalStateInit{Init: state.Encode()}
	_, err = w.Send(t.Context(), a, a.ID, init, &primitives.FunctionCall{Method: "none", Gas: 1_000_000_000_000})
	if failed := new(CallError); !errors.As(err, &failed) {
		t.Errorf("a state init with a call that fails: %v", err)
	}
	if _, err := w.Send(t.Context(), a, a.ID, init); err != nil {
		t.Error(err)
	}
	if _, err := w.Transfer(t.Context(), a, "near", primitives.NEAR(1)); err != nil {
		t.Error(err)
	}
}
