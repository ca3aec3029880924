#!/usr/bin/env bash
# certificates.sh FOLDER NAME...: an authority, and a key store for each name that it signed, with
# keytool alone; the second time nothing is done. For trying out: the key of the authority stays.
set -euo pipefail
folder=$1
shift
cd "$folder"
test ! -e done || exit 0
password=(-storepass in-this-volume-alone -storetype PKCS12)
key=(-keyalg EC -groupname secp256r1 -validity 3650)
rm -f ./*.p12 ./*.pem
# Each of its dozen runs is over sooner than Java's second compiler would pay.
keytool() { command keytool -J-XX:TieredStopAtLevel=1 -J-XX:+UseSerialGC "$@"; }

keytool -genkeypair -alias ca -dname CN=answerbus-trial -ext bc:critical=ca:true \
	-ext ku:critical=keyCertSign "${key[@]}" -keystore authority.p12 "${password[@]}"
keytool -exportcert -rfc -alias ca -keystore authority.p12 "${password[@]}" >ca.pem
keytool -importcert -noprompt -alias ca -file ca.pem -keystore trusted.p12 "${password[@]}"
for name in "$@"; do
	keytool -genkeypair -alias broker -dname "CN=$name" "${key[@]}" -keystore "$name.p12" "${password[@]}"
	keytool -certreq -alias broker -keystore "$name.p12" "${password[@]}" |
		keytool -gencert -rfc -alias ca -validity 3650 -ext "san=dns:$name,dns:localhost" \
			-keystore authority.p12 "${password[@]}" >"$name.pem"
	keytool -importcert -noprompt -alias ca -file ca.pem -keystore "$name.p12" "${password[@]}"
	keytool -importcert -noprompt -alias broker -file "$name.pem" -keystore "$name.p12" "${password[@]}"
done
chmod 644 ./*.p12 ./*.pem
touch done
