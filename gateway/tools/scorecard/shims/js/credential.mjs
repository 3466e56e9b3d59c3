// Stands for @azure-tools/test-credential: tokens of the gateway's development
// identity, as a managed identity gets them.
class ManagedIdentity {
  async getToken(scopes) {
    const resource = [scopes].flat()[0].replace(/\/\.default$/, "");
    const endpoint = `${process.env.IDENTITY_ENDPOINT}?api-version=2019-08-01&resource=${encodeURIComponent(resource)}`;
    const answer = await fetch(endpoint, { headers: { "X-IDENTITY-HEADER": process.env.IDENTITY_HEADER } });
    if (!answer.ok) throw new Error(`no token for ${resource}: ${answer.status} ${await answer.text()}`);
    const { access_token: token, expires_on: expires } = await answer.json();
    return { token, expiresOnTimestamp: Number(expires) * 1000 };
  }
}

export const createTestCredential = () => new ManagedIdentity();
export const createLiveCredential = createTestCredential;
