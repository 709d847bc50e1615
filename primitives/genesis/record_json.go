package genesis

import (
	"fmt"
	"strconv"

	"github.com/troupe-chain/troupe/primitives"
)

// AppendRecord appends r in nearcore's struct order, without spaces.
func AppendRecord(b []byte, r Record) []byte {
	begun := len(b)
	b = append(append(append(b, `{"`...), r.recordName()...), `":`...)
	switch r := r.(type) {
	case *Removal:
		return appendRemoval(b[:begun], r.Of)
	case *AccountRecord:
		b = appendText(b, `{"account_id":`, string(r.AccountID))
		b = append(appendAccount(append(b, `,"account":`...), &r.Account), '}')
	case *DataRecord:
		b = appendText(b, `{"account_id":`, string(r.AccountID))
		b = append(appendBase64(appendBase64(b, `,"data_key":`, r.Key), `,"value":`, r.Value), '}')
	case *ContractRecord:
		b = appendText(b, `{"account_id":`, string(r.AccountID))
		b = append(appendBase64(b, `,"code":`, r.Code), '}')
	case *AccessKeyRecord:
		b = appendText(b, `{"account_id":`, string(r.AccountID))
		b = appendText(b, `,"public_key":`, r.PublicKey.String())
		b = append(appendAccessKey(append(b, `,"access_key":`...), &r.AccessKey), '}')
	case *PostponedReceiptRecord:
		b = appendReceipt(b, r.Receipt)
	case *DelayedReceiptRecord:
		b = appendReceipt(b, r.Receipt)
	case *ReceivedDataRecord:
		b = appendText(b, `{"account_id":`, string(r.AccountID))
		b = appendText(b, `,"data_id":`, r.DataID.String())
		b = append(appendData(b, `,"data":`, r.Data), '}')
	case *GasKeyNonceRecord:
		b = appendText(b, `{"account_id":`, string(r.AccountID))
		b = appendText(b, `,"public_key":`, r.PublicKey.String())
		b = appendUint(b, `,"index":`, uint64(r.Index))
		b = append(appendUint(b, `,"nonce":`, uint64(r.Nonce)), '}')
	case *ForkRecord:
		b = appendText(b, `{"account_id":`, string(r.AccountID))
		b = appendText(b, `,"block":`, r.Block.String())
		b = append(strconv.AppendBool(append(b, `,"keep":`...), r.Keep), '}')
	default:
		panic(fmt.Sprintf("genesis: no JSON form of record %T", r))
	}
	return append(b, '}')
}

func appendAccount(b []byte, a *primitives.Account) []byte {
	b = appendAmount(b, `{"amount":`, a.Amount)
	b = appendAmount(b, `,"locked":`, a.Locked)
	b = appendText(b, `,"code_hash":`, a.LocalCodeHash().String())
	b = appendUint(b, `,"storage_usage":`, a.StorageUsage)
	version := `,"version":"V1"`
	if a.Version == primitives.AccountV2 {
		version = `,"version":"V2"`
	}
	b = append(b, version...)
	if !a.IsInitialized() {
		b = appendUint(b, `,"state":"uninitialized","bootstrap_nonce":`, uint64(a.BootstrapNonce))
	}
	switch a.Contract.Kind {
	case primitives.ContractGlobalHash:
		b = appendText(b, `,"global_contract_hash":`, a.Contract.Hash.String())
	case primitives.ContractGlobalAccount:
		b = appendText(b, `,"global_contract_account_id":`, string(a.Contract.Account))
	case primitives.ContractNone, primitives.ContractLocal: // written as code_hash
	default:
		panic(fmt.Sprintf("genesis: no JSON form of contract kind %d", a.Contract.Kind))
	}
	return append(b, '}')
}

// appendRemoval appends a record with null in place of its content.
func appendRemoval(b []byte, r Record) []byte {
	b = append(append(append(b, `{"`...), r.recordName()...), `":`...)
	b = appendText(b, `{"account_id":`, string(r.Owner()))
	switch r := r.(type) {
	case *AccountRecord:
		b = append(b, `,"account":null`...)
	case *DataRecord:
		b = append(appendBase64(b, `,"data_key":`, r.Key), `,"value":null`...)
	case *ContractRecord:
		b = append(b, `,"code":null`...)
	case *AccessKeyRecord:
		b = append(appendText(b, `,"public_key":`, r.PublicKey.String()), `,"access_key":null`...)
	case *GasKeyNonceRecord:
		b = appendText(b, `,"public_key":`, r.PublicKey.String())
		b = append(appendUint(b, `,"index":`, uint64(r.Index)), `,"nonce":null`...)
	case *PostponedReceiptRecord, *ReceivedDataRecord, *DelayedReceiptRecord, *Removal, *ForkRecord:
		panic(fmt.Sprintf("genesis: a record of type %T cannot be removed", r))
	default:
		panic(fmt.Sprintf("genesis: no case for %T", r))
	}
	return append(b, "}}"...)
}

// AppendRecords appends an array of records.
func AppendRecords(b []byte, records []Record) []byte {
	b = append(b, '[')
	for i, r := range records {
		if i > 0 {
			b = append(b, ',')
		}
		b = AppendRecord(b, r)
	}
	return append(b, ']')
}

// ParseRecord reads one record from JSON without comments.
func ParseRecord(in []byte) (Record, error) {
	rs, err := parseList(in, false, false)
	if err != nil {
		return nil, err
	}
	return rs[0], nil
}

// ParsePatch reads an array of records and removals, the parameter of sandbox_patch_state.
func ParsePatch(in []byte) ([]Record, error) { return parseList(in, true, true) }
