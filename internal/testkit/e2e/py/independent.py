"""The independent client of ../shared/tools against a node: every way to sign and most actions."""
import asyncio

import near

from check import URL, done, equal, step, validator_key

rpc = near.Rpc(URL)
key = validator_key()
root, secret = key['account_id'], near.ed_secret(key['secret_key'])


def send(signer, k, receiver, actions, wait='FINAL', **more):
    nonce = more.pop('nonce', None) or rpc.key_nonce(signer, k) + 1
    tx_hash, raw = near.sign_tx(signer, k, nonce, receiver, rpc.final()['hash'], actions, **more)
    return tx_hash, rpc.send(raw, wait)


def succeeded(reply):
    assert 'error' not in reply, reply
    assert 'Failure' not in reply['result']['status'], reply['result']['status']
    return reply['result']


async def main():
    alice, k = f'independent.{root}', near.ed('independent')

    def create():
        tx_hash, reply = send(root, secret, alice, [near.create_account(), near.transfer(50 * near.N), near.add_key(k)])
        equal(succeeded(reply)['transaction']['hash'], tx_hash, 'hash')
        equal(rpc.call('query', {'request_type': 'view_account', 'finality': 'optimistic', 'account_id': alice})['amount'], str(50 * near.N), 'amount')
    await step('create an account', create)

    def versions():
        succeeded(send(alice, k, root, [near.transfer(1)])[1])
        succeeded(send(alice, k, root, [near.transfer(1)], v1=True)[1])
        succeeded(send(alice, k, root, [near.transfer(1)], strict=True)[1])
    await step('transactions of both versions', versions)

    def gas_key():
        g = near.ed('independent gas key')
        succeeded(send(alice, k, alice, [near.add_gas_key(g, 2)])[1])
        succeeded(send(alice, k, alice, [near.to_gas_key(g, near.N)])[1])
        for index in (0, 1):
            nonces = rpc.call('query', {'request_type': 'view_gas_key_nonces', 'finality': 'optimistic', 'account_id': alice, 'public_key': g.text()})['nonces']
            succeeded(send(alice, g, root, [near.transfer(1)], nonce=nonces[index] + 1, index=index)[1])
        succeeded(send(alice, k, alice, [near.from_gas_key(g, near.N // 2)])[1])
        succeeded(send(alice, k, alice, [near.delete_key(g)])[1])
    await step('gas key', gas_key)

    def meta():
        height = rpc.head()['height']
        action = near.delegate(alice, k, root, [near.transfer(1)], rpc.key_nonce(alice, k) + 1, height + 1000)
        succeeded(send(root, secret, alice, [action])[1])
        action = near.delegate2(alice, k, root, [near.transfer(1)], rpc.key_nonce(alice, k) + 1, height + 1000)
        error = send(root, secret, alice, [action])[1]['error']['data']['TxExecutionError']['InvalidTxError']
        equal(error, {'ActionsValidation': {'RemovedProtocolFeature': {'protocol_feature': 'DelegateV2', 'version': 88}}}, 'of version 2')
    await step('a delegate action; of version 2 none since protocol 87', meta)

    def refused():
        error = send(alice, k, root, [near.transfer(1)], bad_sig=True)[1]['error']
        equal(error['data'], {'TxExecutionError': {'InvalidTxError': 'InvalidSignature'}}, 'bad signature')
        error = send(alice, k, root, [near.transfer(1)], nonce=rpc.key_nonce(alice, k) + 5, strict=True)[1]['error']
        assert 'InvalidNonce' in error['data']['TxExecutionError']['InvalidTxError'], error
    await step('refusals', refused)

    def delete():
        succeeded(send(alice, k, alice, [near.delete_account(root)])[1])
        equal(rpc.try_call('query', {'request_type': 'view_account', 'finality': 'optimistic', 'account_id': alice})['error']['cause']['name'], 'UNKNOWN_ACCOUNT', 'cause')
    await step('delete the account', delete)

asyncio.run(main())
done()
