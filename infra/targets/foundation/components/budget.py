"""A budget over what an owner's stacks cost. It alerts the billing account's administrators; it stops nothing."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_gcp as gcp

ALERTS = ((0.5, "CURRENT_SPEND"), (0.9, "CURRENT_SPEND"), (1.0, "CURRENT_SPEND"), (1.0, "FORECASTED_SPEND"))


@dataclass(frozen=True)
class BudgetArgs:
    billing_account: str
    display_name: str
    usd_per_month: int
    label: tuple[str, str]  # the API filters by one
    quota_project: str  # whose quota the API's calls count against


class Budget(pulumi.ComponentResource):
    """Counts what carries the label, in whichever project of the billing account."""

    def __init__(self, name: str, args: BudgetArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("slipway:foundation:Budget", name, None, opts)
        key, value = args.label
        # With a person's credentials the API answers 403 until a call names its quota project, which takes both of
        # these. A provider of its own, since in the default one they would hold for the APIs that enable all others. It
        # has no parent: the engine declares providers even where `--target` leaves their parent out, and then fails.
        provider = gcp.Provider("budget-api", billing_project=args.quota_project, user_project_override=True)
        gcp.billing.Budget(
            "budget",
            billing_account=args.billing_account,
            display_name=args.display_name,
            budget_filter=gcp.billing.BudgetBudgetFilterArgs(calendar_period="MONTH", labels={key: value}),
            amount=gcp.billing.BudgetAmountArgs(
                specified_amount=gcp.billing.BudgetAmountSpecifiedAmountArgs(
                    currency_code="USD", units=str(args.usd_per_month)
                )
            ),
            threshold_rules=[
                gcp.billing.BudgetThresholdRuleArgs(threshold_percent=percent, spend_basis=basis)
                for percent, basis in ALERTS
            ],
            opts=pulumi.ResourceOptions(parent=self, provider=provider),
        )
        self.register_outputs({})
