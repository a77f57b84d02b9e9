"""The buckets that outlive every training. Closed to the public, protected, and kept when they leave the state."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_gcp as gcp

from infra.names import Names

_DAY_S = 24 * 60 * 60
# Old artifacts get cheaper, and `slipway gc` deletes what nothing names: by age alone, it would be what a host restarts
# from. Parts of uploads that never ended are nobody's.
_OLD_ARTIFACTS = (("SetStorageClass", "NEARLINE", 60), ("AbortIncompleteMultipartUpload", None, 7))


@dataclass(frozen=True)
class StorageArgs:
    names: Names
    soft_delete_days: int  # 0 is off


class Storage(pulumi.ComponentResource):
    """Checkpoints, data and artifacts in the hosts' region."""

    def __init__(self, name: str, args: StorageArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("slipway:foundation:Storage", name, None, opts)
        options = _kept(self)
        rules = [
            gcp.storage.BucketLifecycleRuleArgs(
                action=gcp.storage.BucketLifecycleRuleActionArgs(type=action, storage_class=storage_class),
                condition=gcp.storage.BucketLifecycleRuleConditionArgs(age=age_days),
            )
            for action, storage_class, age_days in _OLD_ARTIFACTS
        ]
        self.buckets = {
            kind: _bucket(kind, bucket, args, options, lifecycle_rules=rules if kind == "artifacts" else None)
            for kind, bucket in args.names.buckets.items()
        }
        self.register_outputs({kind: bucket.url for kind, bucket in self.buckets.items()})


class State(pulumi.ComponentResource):
    """The bucket of Pulumi's state: every version kept, encrypted with a key of its own, which also guards secrets.

    storage_agent: Cloud Storage's account in the project, as IAM spells it.
    """

    def __init__(
        self,
        name: str,
        args: StorageArgs,
        storage_agent: pulumi.Input[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("slipway:foundation:State", name, None, opts)
        names = args.names
        kept = _kept(self)
        ring = gcp.kms.KeyRing(
            "ring", name=names.key_ring, project=names.project, location=names.region, opts=kept
        )  # a ring can never be deleted, so it is kept
        key = gcp.kms.CryptoKey("key", name=names.state_key, key_ring=ring.id, rotation_period="7776000s", opts=kept)
        grant = gcp.kms.CryptoKeyIAMMember(
            "key-for-storage",
            crypto_key_id=key.id,
            role="roles/cloudkms.cryptoKeyEncrypterDecrypter",
            member=storage_agent,  # Cloud Storage itself does the encryption, not who reads or writes
            opts=kept,
        )
        self.bucket = _bucket(
            "state",
            names.state_bucket,
            args,
            _kept(self, grant),
            versioning=gcp.storage.BucketVersioningArgs(enabled=True),
            encryption=gcp.storage.BucketEncryptionArgs(default_kms_key_name=key.id),
        )
        self.register_outputs({"url": self.bucket.url})


def _kept(parent: pulumi.Resource, *after: pulumi.Resource) -> pulumi.ResourceOptions:
    """Cannot be deleted by `up` or `destroy`; taken out of the state on purpose, it still exists."""
    return pulumi.ResourceOptions(parent=parent, depends_on=list(after), protect=True, retain_on_delete=True)


def _bucket(
    kind: str,
    name: str,
    args: StorageArgs,
    opts: pulumi.ResourceOptions,
    lifecycle_rules: list[gcp.storage.BucketLifecycleRuleArgs] | None = None,
    versioning: gcp.storage.BucketVersioningArgs | None = None,
    encryption: gcp.storage.BucketEncryptionArgs | None = None,
) -> gcp.storage.Bucket:
    soft_delete = gcp.storage.BucketSoftDeletePolicyArgs(retention_duration_seconds=args.soft_delete_days * _DAY_S)
    return gcp.storage.Bucket(
        kind,
        name=name,
        project=args.names.project,
        location=args.names.region,
        storage_class="STANDARD",
        uniform_bucket_level_access=True,
        public_access_prevention="enforced",
        soft_delete_policy=soft_delete,
        lifecycle_rules=lifecycle_rules,
        versioning=versioning,
        encryption=encryption,
        opts=opts,
    )
