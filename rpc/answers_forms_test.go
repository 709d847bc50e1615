package rpc

import (
	"errors"
	"reflect"
	"testing"
)

// parsers are the parsers of nearcore's methods with what they return.
var parsers = map[string]func(val) (any, error){
	"block": reads(block), "chunk": reads(chunk), "EXPERIMENTAL_congestion_level": reads(congestionLevel), "gas_price": reads(gasPrice),
	"query": reads(query), "EXPERIMENTAL_view_account": reads(viewAccount), "EXPERIMENTAL_view_code": reads(viewCode),
	"EXPERIMENTAL_view_state": reads(viewState), "EXPERIMENTAL_view_access_key": reads(viewAccessKey),
	"EXPERIMENTAL_view_access_key_list": reads(viewAccessKeyList), "EXPERIMENTAL_view_gas_key_nonces": reads(viewGasKeyNonces),
	"EXPERIMENTAL_call_function": reads(callFunction), "changes": reads(changes), "block_effects": reads(blockEffects),
	"EXPERIMENTAL_changes_in_block": reads(changesInBlock), "EXPERIMENTAL_indexer_block": reads(indexerBlock), "tx": reads(tx),
	"tx_status": reads(txStatus), "EXPERIMENTAL_tx_status": reads(experimentalTxStatus), "send_tx": reads(sendTx),
	"broadcast_tx_commit": reads(broadcastTxCommit), "broadcast_tx_async": reads(broadcastTxAsync), "EXPERIMENTAL_receipt": reads(receipt),
	"EXPERIMENTAL_receipt_to_tx": reads(receiptToTx), "light_client_proof": reads(lightClientProof),
	"EXPERIMENTAL_light_client_block_proof": reads(lightClientBlockProof), "next_light_client_block": reads(nextLightClientBlock),
	"validators": reads(validators), "EXPERIMENTAL_validators_ordered": reads(validatorsOrdered), "maintenance_windows": reads(maintenanceWindows),
	"EXPERIMENTAL_protocol_config": reads(protocolConfig), "EXPERIMENTAL_split_storage_info": reads(splitStorageInfo),
	"sandbox_fast_forward": reads(sandboxFastForward),
}

// reads is the parser of a method.
func reads[P any](m Method[P]) func(val) (any, error) {
	return func(v val) (any, error) { return m.read(v) }
}

// TestFormsAreReadAsNeardReadsThem: objects and arrays of parameters, most of them right. What
// nearcore's types accept is accepted and means the same as the form in which the types write it
// again; what they refuse is refused with the same text.
func TestFormsAreReadAsNeardReadsThem(t *testing.T) {
	type vector struct {
		Method, Params string
		Again, Error   *string
	}
	read := func(method, params string) (any, error) {
		var d document
		if err := d.parse([]byte(params)); err != nil {
			t.Fatalf("%s %s: text %s", method, params, err.text)
		}
		v, err := parsers[method](val{&d, 0})
		if err != nil {
			return nil, errors.New(parseErrorText(err))
		}
		return v, nil
	}
	accepted, seen := 0, map[string]bool{}
	eachAnswer(t, "forms", func(x *vector) {
		seen[x.Method] = true
		got, err := read(x.Method, x.Params)
		if text := said(err); !same(text, x.Error) {
			t.Errorf("%s %s: %s, want %s", x.Method, x.Params, show(text), show(x.Error))
			return
		}
		if err != nil {
			return
		}
		accepted++
		if want, err := read(x.Method, *x.Again); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s %s: %+v, but %s: %+v, %v", x.Method, x.Params, got, *x.Again, want, err)
		}
	})
	if accepted < 1000 {
		t.Errorf("%d requests accepted", accepted)
	}
	for i := range methods {
		r := &methods[i]
		if p := goodParams[r.name]; seen[r.name] || r.own || ownFault(r, nil) || p == "[]" || p == "" {
			continue
		}
		t.Errorf("no form of %s", r.name)
	}
}
