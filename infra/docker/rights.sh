#!/usr/bin/env bash
# Written by `make chart` from the table of `answerbus topics acls`: rows of one operation together,
# since each command takes a second or two. USER and PASSWORD are of one who may grant rights.
set -euo pipefail
PATH=$PATH:/opt/kafka/bin
config=$(mktemp)
trap 'rm -f "$config"' EXIT
cat >"$config" <<END
security.protocol=SASL_SSL
sasl.mechanism=PLAIN
sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
	username="$GRANTING_USER" password="$GRANTING_PASSWORD";
ssl.truststore.type=PEM
ssl.truststore.location=/certificates/ca.pem
END
grant() {
	kafka-acls.sh --bootstrap-server "$BOOTSTRAP" --command-config "$config" --add "$@" >/dev/null
}

# admin
grant --allow-principal User:answerbus-admin --operation Create --topic answerbus.requests.v1 --topic answerbus.results.v1 --topic answerbus.refusals.v1 --topic answerbus.retries.v1 --topic answerbus.dead-letters.v1 --topic answerbus.attempts.v1 --topic answerbus.ledger.v1 --topic answerbus.tool-results.v1 --topic answerbus.approvals.v1 --topic answerbus.controls.v1 --topic answerbus.runs.v1 --topic answerbus.steps.v1 --topic answerbus.accepted-tools.v1 --topic answerbus.leases.v1
grant --allow-principal User:answerbus-admin --operation Alter --topic answerbus.requests.v1 --topic answerbus.results.v1 --topic answerbus.refusals.v1 --topic answerbus.retries.v1 --topic answerbus.dead-letters.v1 --topic answerbus.attempts.v1 --topic answerbus.ledger.v1 --topic answerbus.tool-results.v1 --topic answerbus.approvals.v1 --topic answerbus.controls.v1 --topic answerbus.runs.v1 --topic answerbus.steps.v1 --topic answerbus.accepted-tools.v1 --topic answerbus.leases.v1
grant --allow-principal User:answerbus-admin --operation AlterConfigs --topic answerbus.requests.v1 --topic answerbus.results.v1 --topic answerbus.refusals.v1 --topic answerbus.retries.v1 --topic answerbus.dead-letters.v1 --topic answerbus.attempts.v1 --topic answerbus.ledger.v1 --topic answerbus.tool-results.v1 --topic answerbus.approvals.v1 --topic answerbus.controls.v1 --topic answerbus.runs.v1 --topic answerbus.steps.v1 --topic answerbus.accepted-tools.v1 --topic answerbus.leases.v1
grant --allow-principal User:answerbus-admin --operation Read --topic answerbus.ledger.v1
grant --allow-principal User:answerbus-admin --operation Create --resource-pattern-type prefixed --topic answerbus.tools. --topic answerbus.toolsets.
grant --allow-principal User:answerbus-admin --operation Describe --resource-pattern-type prefixed --topic answerbus.tools. --topic answerbus.toolsets.
grant --allow-principal User:answerbus-admin --operation AlterConfigs --resource-pattern-type prefixed --topic answerbus.tools. --topic answerbus.toolsets.

# worker
grant --allow-principal User:answerbus-worker --operation Read --topic answerbus.requests.v1 --topic answerbus.retries.v1 --topic answerbus.ledger.v1 --group answerbus.worker --topic answerbus.tool-results.v1 --topic answerbus.approvals.v1 --topic answerbus.controls.v1 --topic answerbus.runs.v1 --topic answerbus.accepted-tools.v1 --topic answerbus.leases.v1
grant --allow-principal User:answerbus-worker --operation Write --topic answerbus.requests.v1 --topic answerbus.results.v1 --topic answerbus.refusals.v1 --topic answerbus.retries.v1 --topic answerbus.dead-letters.v1 --topic answerbus.attempts.v1 --topic answerbus.ledger.v1 --topic answerbus.runs.v1 --topic answerbus.steps.v1 --topic answerbus.accepted-tools.v1 --topic answerbus.leases.v1
grant --allow-principal User:answerbus-worker --operation Write --resource-pattern-type prefixed --transactional-id answerbus.lane. --topic answerbus.tools.
grant --allow-principal User:answerbus-worker --operation Read --resource-pattern-type prefixed --topic answerbus.toolsets.
grant --allow-principal User:answerbus-worker --operation DescribeConfigs --topic answerbus.requests.v1 --topic answerbus.results.v1 --topic answerbus.refusals.v1 --topic answerbus.retries.v1 --topic answerbus.dead-letters.v1 --topic answerbus.attempts.v1 --topic answerbus.ledger.v1
grant --allow-principal User:answerbus-worker --operation Describe --cluster

# app
grant --allow-principal User:answerbus-app --operation Write --topic answerbus.requests.v1 --topic answerbus.controls.v1
grant --allow-principal User:answerbus-app --operation Read --topic answerbus.results.v1 --topic answerbus.refusals.v1 --topic answerbus.dead-letters.v1 --group answerbus-app --topic answerbus.retries.v1 --topic answerbus.steps.v1

# tools
grant --allow-principal User:answerbus-tools --operation Read --topic answerbus.tools.echo.v1 --group answerbus.tools.echo
grant --allow-principal User:answerbus-tools --operation Write --topic answerbus.tool-results.v1 --topic answerbus.toolsets.echo.v1
grant --allow-principal User:answerbus-tools --operation Create --topic answerbus.tools.echo.v1 --topic answerbus.tool-results.v1 --topic answerbus.toolsets.echo.v1
grant --allow-principal User:answerbus-tools --operation Describe --topic answerbus.requests.v1
