/* Joins the forms of security keys to allauth's scripts; what they need stands in data attributes. */
(() => {
  "use strict";
  const forms = window.allauth && window.allauth.webauthn && window.allauth.webauthn.forms;
  for (const element of document.querySelectorAll("[data-passkey]")) {
    const { passkey, credential, facts, passwordless } = element.dataset;
    if (!forms || !window.PublicKeyCredential) {
      element.disabled = true;
      continue;
    }
    element.hidden = false;
    const ids = { credential, data: facts, passwordless };
    if (passkey === "add") forms.addForm({ ids: { ...ids, add: element.id } });
    if (passkey === "login") forms.loginForm({ ids: { ...ids, login: element.id } });
    if (passkey === "authenticate") forms.authenticateForm({ ids: { ...ids, authenticate: element.id } });
  }
  document.addEventListener("allauth.error", (event) => {
    const place = document.getElementById("passkey-problem");
    if (!place) return;
    event.preventDefault();
    place.hidden = false;
  });
})();
