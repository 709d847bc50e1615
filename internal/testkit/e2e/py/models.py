"""near-jsonrpc-client, whose pydantic models of nearcore's OpenAPI read every reply."""
import asyncio
import base64
import json
import urllib.request

import base58
import near_jsonrpc_models as m
from near_jsonrpc_client import NearClientSync
from near_jsonrpc_client.errors import RpcError
from nacl import signing

from check import URL, done, step, validator_key

client = NearClientSync(rpc_urls=URL)
key = validator_key()
root = key['account_id']
secret = signing.SigningKey(base58.b58decode(key['secret_key'].split(':')[1])[:32])
FINAL = {'finality': 'final'}


def model(name, params):
    return getattr(m, name).model_validate(params)


def raw(method, params):
    body = json.dumps({'jsonrpc': '2.0', 'id': 1, 'method': method, 'params': params}).encode()
    with urllib.request.urlopen(urllib.request.Request(URL, body, {'content-type': 'application/json'})) as r:
        return json.load(r)['result']


def transfer(amount=1):
    """A signed transfer to the signer itself, by hand: borsh of a version 0 transaction. -> base64, hash"""
    view = raw('query', {'request_type': 'view_access_key', 'finality': 'optimistic', 'account_id': root, 'public_key': key['public_key']})
    text = lambda s: len(s).to_bytes(4, 'little') + s.encode()
    tx = (text(root) + b'\0' + bytes(secret.verify_key) + (view['nonce'] + 1).to_bytes(8, 'little') + text(root)
          + base58.b58decode(view['block_hash']) + (1).to_bytes(4, 'little') + b'\3' + amount.to_bytes(16, 'little'))
    from hashlib import sha256
    digest = sha256(tx).digest()
    return base64.b64encode(tx + b'\0' + secret.sign(digest).signature).decode(), base58.b58encode(digest).decode()


async def main():
    signed, tx_hash = transfer()
    sent = raw('send_tx', {'signed_tx_base64': signed, 'wait_until': 'FINAL'})
    block_hash = sent['transaction_outcome']['block_hash']
    receipt = sent['receipts_outcome'][0]['id']

    await step('status, health, network_info', lambda: (client.status(), client.health(), client.network_info()))

    def blocks():
        for at in (FINAL, {'block_id': 0}, {'block_id': block_hash}, {'sync_checkpoint': 'genesis'}):
            client.block(params=model('RpcBlockRequest', at))
            client.chunk(params=model('RpcChunkRequest', {'chunk_id': raw('block', at)['chunks'][0]['chunk_hash']}))
    await step('block and chunk', blocks)

    def queries():
        for view in ({'request_type': 'view_account', 'account_id': root},
                     {'request_type': 'view_access_key', 'account_id': root, 'public_key': key['public_key']},
                     {'request_type': 'view_access_key_list', 'account_id': root},
                     {'request_type': 'view_state', 'account_id': root, 'prefix_base64': '', 'include_proof': True}):
            client.query(params=model('RpcQueryRequest', {**view, **FINAL}))
    await step('query', queries)

    def txs():
        params = {'tx_hash': tx_hash, 'sender_account_id': root, 'wait_until': 'FINAL'}
        client.tx(params=model('RpcTransactionStatusRequest', params))
        for level in ('EXECUTED_OPTIMISTIC', 'EXECUTED', 'FINAL'):
            client.send_tx(params=model('RpcSendTransactionRequest', {'signed_tx_base64': transfer()[0], 'wait_until': level}))
        client.broadcast_tx_async(params=model('RpcSendTransactionRequest', {'signed_tx_base64': transfer()[0]}))
    await step('tx, send_tx, broadcast_tx_async', txs)

    def status():
        client.experimental_tx_status(params=model('RpcTransactionStatusRequest', {'tx_hash': tx_hash, 'sender_account_id': root, 'wait_until': 'FINAL'}))
        client.experimental_receipt(params=model('RpcReceiptRequest', {'receipt_id': receipt}))
    await step('EXPERIMENTAL_tx_status, EXPERIMENTAL_receipt', status)

    def changes():
        at = {'block_id': block_hash}
        client.block_effects(params=model('RpcStateChangesInBlockRequest', at))
        for kind in ({'changes_type': 'account_changes', 'account_ids': [root]},
                     {'changes_type': 'all_access_key_changes', 'account_ids': [root]},
                     {'changes_type': 'contract_code_changes', 'account_ids': [root]},
                     {'changes_type': 'data_changes', 'account_ids': [root], 'key_prefix_base64': ''}):
            client.changes(params=model('RpcStateChangesInBlockByTypeRequest', {**at, **kind}))
    await step('block_effects, changes', changes)

    def configs():
        client.gas_price(params=model('RpcGasPriceRequest', {'block_id': None}))
        client.validators(params=model('RpcValidatorRequest', {'epoch_id': raw('block', FINAL)['header']['epoch_id']}))
        client.genesis_config()
        client.experimental_protocol_config(params=model('RpcProtocolConfigRequest', FINAL))
    await step('gas_price, validators, genesis_config, EXPERIMENTAL_protocol_config', configs)

    def light():
        head = raw('block', FINAL)['header']['hash']
        client.next_light_client_block(params=model('RpcLightClientNextBlockRequest', {'last_block_hash': raw('block', {'block_id': 1})['header']['hash']}))
        client.light_client_proof(params=model('RpcLightClientExecutionProofRequest', {
            'type': 'transaction', 'transaction_hash': tx_hash, 'sender_id': root, 'light_client_head': head}))
        client.experimental_light_client_block_proof(params=model('RpcLightClientBlockProofRequest', {'block_hash': block_hash, 'light_client_head': head}))
    await step('next_light_client_block and proofs', light)

    def missing():
        try:
            client.query(params=model('RpcQueryRequest', {'request_type': 'view_account', 'account_id': 'nobody.near', **FINAL}))
        except RpcError as error:
            assert 'UNKNOWN_ACCOUNT' in repr(error.error), error.error
            return
        raise AssertionError('no error')
    await step('error: unknown account', missing)

asyncio.run(main())
done()
