"""py-near, unmodified: accounts, transfers, keys, delegate actions, its typed errors."""
import asyncio

import base58
from nacl import signing
from py_near import transactions
from py_near.account import Account
from py_near.exceptions.provider import InvalidNonce, JsonProviderError, UnknownAccount

from check import URL, done, equal, step, validator_key

NEAR = 10 ** 24
key = validator_key()
root_id = key['account_id']
alice_id = f'pynear.{root_id}'
pair = signing.SigningKey.generate()
secret = 'ed25519:' + base58.b58encode(bytes(pair) + bytes(pair.verify_key)).decode()


async def main():
    root = Account(root_id, key['secret_key'], URL)
    alice = Account(alice_id, secret, URL)
    await root.startup()

    async def create():
        result = await root.create_account(alice_id, bytes(pair.verify_key), 20 * NEAR)
        equal(result.status, {'SuccessValue': ''}, 'status')
        await alice.startup()
        equal((await alice.fetch_state())['amount'], str(20 * NEAR), 'amount')
    await step('create an account', create)

    async def transfer():
        before = int((await root.fetch_state())['amount'])
        result = await alice.send_money(root_id, 3 * NEAR)
        equal(result.status, {'SuccessValue': ''}, 'status')
        gained = int((await root.fetch_state())['amount']) - before
        assert gained >= 3 * NEAR, gained
        tx = await alice.provider.get_tx(result.transaction.hash, alice_id)
        equal(tx.transaction.hash, result.transaction.hash, 'hash')
    await step('transfer and its status', transfer)

    async def included():
        for _ in range(3):
            assert len(await alice.send_money(root_id, 1, included=True)) >= 43
    await step('transfers that wait for inclusion', included)

    async def keys():
        other = signing.SigningKey.generate()
        third = signing.SigningKey.generate()
        await alice.add_full_access_public_key(bytes(other.verify_key))
        await alice.add_public_key(bytes(third.verify_key), root_id, ['m'], 5)
        equal(len(await alice.get_access_key_list()), 3, 'keys')
        await alice.delete_public_key(bytes(other.verify_key))
        equal(len(await alice.get_access_key_list()), 2, 'keys')
    await step('keys', keys)

    async def balance():
        assert await alice.get_balance() > 16 * NEAR
    await step('balance', balance)

    async def missing():
        try:
            await Account('nobody.near', None, URL).provider.get_account('nobody.near')
        except UnknownAccount:
            return
        raise AssertionError('no error, want UnknownAccount')
    await step('error: unknown account', missing)

    async def poor():
        try:
            await alice.send_money(root_id, 10 ** 9 * NEAR)
        except JsonProviderError as error:
            assert not isinstance(error, InvalidNonce), error
            return
        raise AssertionError('no error, want NotEnoughBalance')
    await step('error: too little balance', poor)

    wasm = lambda name: open(f'../../contracts/c/{name}.wasm', 'rb').read()
    metadata = {'spec': 'ft-1.0.0', 'name': 'Troupe', 'symbol': 'TRP', 'icon': None, 'reference': None, 'reference_hash': None, 'decimals': 6}
    token_id = alice_id

    async def contract():
        result = await alice.deploy_contract(wasm('ft'))
        equal(result.status, {'SuccessValue': ''}, 'deployed')
        await alice.function_call(token_id, 'new', {'owner_id': alice_id, 'total_supply': '50', 'metadata': metadata}, gas=50 * 10 ** 12)
        await root.function_call(token_id, 'storage_deposit', {}, gas=50 * 10 ** 12, amount=1250 * 10 ** 18)
        result = await alice.function_call(token_id, 'ft_transfer', {'receiver_id': root_id, 'amount': '20'}, gas=50 * 10 ** 12, amount=1)
        assert any('ft_transfer' in line for line in result.logs), result.logs
        equal((await root.view_function(token_id, 'ft_balance_of', {'account_id': root_id})).result, '20', 'balance')
    await step('contract: deploy, call, view', contract)

    async def fails():
        try:
            result = await root.function_call(token_id, 'ft_transfer', {'receiver_id': 'nobody.near', 'amount': '1'}, gas=50 * 10 ** 12, amount=1)
        except Exception as error:
            assert 'panicked' in repr(error) or 'panicked' in str(getattr(error, 'json', '')), repr(error)
            return
        assert 'Failure' in result.status, result.status
    await step('a call that fails', fails)

    async def delegate():
        action = await alice.create_delegate_action([transactions.create_transfer_action(7)], root_id)
        signature = alice.sign_delegate_transaction(action)
        result = await root.call_delegate_transaction(action, signature)
        equal(result.status, {'SuccessValue': ''}, 'status')
    await step('a delegate action through a relayer', delegate)

    for account in (root, alice):
        await account.shutdown()

asyncio.run(main())
done()
