# ruff: noqa: E501 - the tables of patterns read better unbroken
"""The words printed beside amounts on receipts, by what they announce, in the languages we read.

Every entry is a small regular expression over *label text*: folded (no case, no accents), words joined by one space, OCR
slips already repaired (see `labels`). The order of `LABELS` is the order of trial: an exclusion ("total items", "total
tax", "you saved") stands before the general word it contains ("total").
"""

from __future__ import annotations

from enum import StrEnum


class Kind(StrEnum):
    """What an amount is, by its label."""

    TIP_SUGGESTION = "suggested tip"
    COUNT = "count of items"
    POINTS = "points"
    SAVINGS = "savings"
    CARRIED = "carried to the next page"
    ROUNDED_TOTAL = "total after rounding"
    ROUNDING = "rounding"
    CHANGE = "change"
    TENDERED = "money given"
    PAID = "amount paid"
    GROSS = "total including tax"
    NET = "amount without tax"
    SUBTOTAL = "subtotal"
    TAX_TOTAL = "total tax"
    PAYABLE = "amount to pay"
    DISCOUNT = "discount"
    SERVICE = "service charge"
    TIP = "tip"
    DEPOSIT = "deposit or prepayment"
    TAX = "tax"
    TOTAL = "total"
    CARD = "card payment"
    AMOUNT = "amount"


TAX_WORD = (
    "gst|sst|vat|tax|taxes|tua|lva|hst|pst|qst|mwst|mehrwertsteuer|ust|umsatzsteuer|steuer|tva|taxe|taxes|iva|igic|imposta|imposto|"
    "impuesto|impuestos|icms|iss|btw|ptu|podatek|pdv|moms|mva|alv|dph|afa|kdv|pvn|cukai|пдв|ндс|φπα|pvm|km|ddv|mwst"
)
_INCL = r"(?:incl?|inclu|including|inclusive|inclusif|inklusive|inkl|inclusief|incluido|inclusa|incluso|inclus|included|compresa|comprise|wliczony|termasuk)"
_EXCL = r"(?:excl?|exclu|excluding|exclusive|excluded|exklusive|exkl|exclusief|excl|before|without|w o|wo|ohne|hors|sin|esclusa|bez|tanpa)"
_TAX = rf"(?:{TAX_WORD})"
_TOTAL = (
    r"(?:total|totals|totaal|totale|summe|gesamt|suma|jumlah|ttl|total amount|total amt|total sales?|amount|amt|"
    r"importe|montant|betrag|bedrag|sales?|price|paid)"
)

LABELS: tuple[tuple[Kind, str], ...] = (
    (
        Kind.TIP_SUGGESTION,
        r"suggested (?:tip|tips|gratuity)|recommended (?:tip|gratuity)|tip (?:guide|suggestions?|calculator)|"
        r"suggestions?|recommended|tip percent|gratuity guide",
    ),
    (
        Kind.COUNT,
        r"(?:total|ttl|no|no of|number of|total no|total no of|total number of) (?:of )?(?:items?|qty|quantity|pcs|pieces|units?|"
        r"articles?|lines?|pax|discount items?|artikel|posten)|items? (?:count|sold|total|qty)|(?:qty|quantity) (?:total|sold|s)|item s|"
        r"total qty|total quantity|anzahl|nombre d ?articles?|nb articles?|articles?|articulos|num articulos|articoli|"
        r"n ?articoli|pezzi|liczba|ilosc|aantal|bil item|bilangan|qty|quantity|items?|stuks|numero itens|qtd total(?: de itens)?|"
        r"qtd|pax|posten",
    ),
    (
        Kind.POINTS,
        r"points?|pts|point balance|punkte|puntos|punti|pontos|punten|punkty|bonus|loyalty|stamps|mata ganjaran|"
        r"reward|rewards|rc balance|mtd|treuepunkte|clubcard|member savings",
    ),
    (
        Kind.SAVINGS,
        r"savings?|you (?:have )?saved|saved|you save|ersparnis|gespart|sie sparen|economies|vous economisez|economie|ahorro|"
        r"ahorrado|usted ahorra|risparmio|risparmiato|poupanca|poupou|bespaard|uw voordeel|oszczedzasz|zaoszczedzono|jimat|"
        r"anda jimat|вы сэкономили|экономия",
    ),
    (
        Kind.CARRIED,
        r"carried forward|carry over|brought forward|ubertrag|a reporter|report|suma y sigue|riporto|a transportar|"
        r"do przeniesienia|transport|page total|seitensumme|total page",
    ),
    (
        Kind.ROUNDED_TOTAL,
        r"total (?:amount |amt |sales )?(?:after |with )?(?:rounded|rounding applied)|rounded (?:total|amount|amt|bill)|"
        r"total (?:amount |amt |sales )?(?:after|incl?|including|inclusive|with) (?:of )?(?:rounding|round|adj|adjustment|rounded)(?: adj| adjustment)?|"
        r"total after adj|after (?:rounding|adj)|amount rounded|nett rounded|"
        r"(?:total )?after rounding(?: adj| adjustment)?|total (?:incl?|inclusive) rounding",
    ),
    (
        Kind.ROUNDING,
        r"rounding(?: adj| adjustment| amt| amount)?|rounded|round(?:ed)? (?:adj|adjustment|off|down|up|amt|amount)|rnd adj|"
        r"total rounding|bill rounding|rundung|rundungsdifferenz|arrondi|redondeo|arrotondamento|arredondamento|afronding|"
        r"zaokraglenie|pembundaran|penggenapan|pelarasan|округление|заокруглення",
    ),
    (
        Kind.CHANGE,
        r"(?:total |cash |your |less )?change(?: due| amt| amount| back| given| rm| cash)?|balance change|ruckgeld|wechselgeld|ruckgabe|"
        r"zuruck|gegeben zuruck|rendu(?: monnaie| especes)?|a rendre|monnaie(?: rendue)?|cambio(?: efectivo)?|su cambio|vuelto|vuelta|resto(?: efectivo| contanti)?|"
        r"troco|wisselgeld|terug|retour|reszta(?: gotowka)?|wydano|baki|duit baki|wang baki|сдача|решта|para ustu|tien thoi|"
        r"tien tra lai|kembali|kembalian|vaihtoraha|vaxel|byttepenger|byttepenge|vekslepenger|veksel|tilbake|takaisin|vraceno|vratit|vydavok|povrat|kusur|rest(?: lei| ron)?|ρεστα|visszajaro|atlikums|maiņa|maina",
    ),
    (
        Kind.TENDERED,
        r"pay|(?:amount |amt |cash |total |payment )?(?:tendered|tender|received|receive)|cash(?: total| amount| amt| paid| received| payment| sales?| rm| myr)?|"
        r"total cash|paid by cash|by cash|accepted total|accepted|bar|gegeben|bar gegeben|bargeld|erhalten|especes?|recu|"
        r"efectivo|entregado|entrega|contante|contanti|pagamento contante|dinheiro|numerario|valor pago|contant|ontvangen|"
        r"gotowka|wplata|wplacono|tunai|bayaran|bayar|готівка|наличными|наличные|получено|nakit|tien mat|tien khach dua|khach dua|"
        r"tien khach tra|kontant|kontanter|kateinen|hotovost|keszpenz|skaidra nauda|numerar(?: lei| ron)?|gotovina|μετρητα|grynieji|sularaha",
    ),
    (Kind.NET, r"total \d{1,2} (?:rated )?supplies.*|total (?:standard|zero|exempt).{0,12}supplies.*"),
    (
        Kind.GROSS,
        rf"{_TOTAL}.{{0,24}}\b{_INCL}\b.{{0,12}}\b{_TAX}|{_TOTAL} {_TAX} {_INCL}|{_TOTAL} {_INCL}(?: of)?|"
        rf"{_INCL} (?:of )?{_TAX} {_TOTAL}|{_TAX} {_INCL}(?:lusive)? {_TOTAL}|total ttc|ttc|brutto|total brutto|suma brutto|"
        r"total gross|gross (?:total|amount)|total bruto",
    ),
    (
        Kind.NET,
        rf"{_TOTAL}.{{0,24}}\b{_EXCL}\b.{{0,12}}\b{_TAX}|{_TOTAL} {_EXCL}(?: of)?|{_EXCL} (?:of )?{_TAX}|total ht|montant ht|ht|"
        r"netto|total netto|nettobetrag|netto betrag|base imponible|base imp|base|imponibile|taxable(?: amount| amt| value| sales?)?|"
        rf"net of (?:gst|vat|tax)|net value|net sales?|valor liquido|sprzedaz(?: opod| opodatkowana)?|{_TAX} base|"
        r"total taxable|zero rated|non taxable|nett? excl",
    ),
    (
        Kind.PAID,
        r"(?:amount|amt|total|total amount) paid|paid(?: amount| amt)?|payment(?: amount| amt| received)?|total payment|bezahlt|betaald|"
        r"paye|regle|montant (?:paye|regle)|pagado|pagato|pago|importo pagato|importe pagado|zaplacono|dibayar|oplacono|оплачено|сплачено",
    ),
    (
        Kind.SUBTOTAL,
        r"(?:total )?sub ?total(?: amount| sales?)?|sub ttl|s ?total|zwischensumme|sous ?total|sub ?totale|subtotaal|tussentotaal|"
        r"suma czesciowa|subjumlah|sub jumlah|jumlah kecil|промежуточный итог|ara toplam|merchandise subtotal|"
        r"mellansumma|valisumma|medzisucet|mezisoucet|reszosszeg|total articles|starpsumma|net sub ?total",
    ),
    (
        Kind.TAX_TOTAL,
        rf"(?:total|sum|summe|suma|totale|totaal|totaux) (?:of )?(?:amount )?(?:{_TAX})(?: amt| amount| payable)?|"
        rf"(?:{_TAX}) (?:total|amount|amt|payable|summe|gesamt|suma|value)|jumlah cukai|suma ptu|razem ptu|importe iva|cuota iva|"
        r"montant tva|kwota ptu|topkdv|toplam kdv|imposta totale|di cui iva",
    ),
    (
        Kind.PAYABLE,
        r"grand (?:total|ttl)(?: amount)?|(?:total|amount|amt|balance|bal|sum|net|nett)(?: amount| amt)? (?:due|payable|owing|outstanding)|"
        r"(?:total|amount|amt|balance) to (?:be )?(?:pay|paid)|(?:net|nett) (?:total|amount|amt|sales?)?|nett|payable(?: amount| amt)?|to pay|please pay|you pay|due|"
        r"invoice (?:total|amount)|bill (?:total|amount)|final (?:total|amount)|total charges?|total bill|order total|"
        r"zu zahlen|zahlbetrag|zahlen|endbetrag|endsumme|rechnungsbetrag|gesamtsumme|gesamtbetrag|gesamtpreis|"
        r"(?:net|total|montant|reste|somme) a payer|a payer|montant du|total general|"
        r"(?:total|importe|valor|monto) a pagar|a pagar|total a cobrar|total factura|importe total|"
        r"(?:totale|importo) da pagare|da pagare|totale (?:complessivo|documento|dovuto|generale)|importo totale|"
        r"te betalen|totaal te betalen|totaal bedrag|totaalbedrag|eindtotaal|do zaplaty|razem do zaplaty|"
        r"jumlah (?:besar|perlu dibayar|bayaran|keseluruhan)|amaun perlu dibayar|к оплате|до сплати|πληρωτεο|за плащане|de plata|za uplatu|moketi|genel toplam|odenecek|"
        r"att betala|a betale|maksettava|k uhrade|celkem k uhrade|fizetendo|apmaksai|samaksai|tong cong|tong tien(?: phai)?(?: t toan| thanh toan| tra)?|"
        r"thanh toan|phai tra",
    ),
    (
        Kind.DISCOUNT,
        r"(?:total |less |item |bill |spec |special |member )?(?:discount|discounts|disc|promo|promotion|coupon|coupons|rebate)(?: amount| amt| total| given)?|"
        r"rabatt|nachlass|preisvorteil|remise|reduction|promotion|descuento|dto|sconto|desconto|korting|rabat|upust|opust|"
        r"diskaun|знижка|скидка|indirim|alennus|sleva|kedvezmeny|atlaide|bonuskupon|coupon|voucher|giam gia|chiet khau",
    ),
    (
        Kind.SERVICE,
        r"(?:total )?(?:service|svc|serv|srv) (?:charge|chg|chrg|chgs|charges|tax|fee)|service|servis|caj perkhidmatan|bedienung|"
        r"coperto|servizio|servicio|taxa de servico|delivery(?: fee| charge)?|frais de livraison|versand(?:kosten)?|shipping(?: fee)?|verzendkosten",
    ),
    (Kind.TIP, r"tip|tips|tip amount|gratuity|trinkgeld|pourboire|propina|mancia|gorjeta|fooi|napiwek|чаевые|dricks"),
    (
        Kind.DEPOSIT,
        r"deposit(?: paid)?|pre ?paid|prepayment|anzahlung|vorauszahlung|acompte|anticipo|acconto|sinal|aanbetaling|zaliczka|"
        r"gift card|gutschein|cheque cadeau|tarjeta regalo|buono|cadeaukaart",
    ),
    (
        Kind.TAX,
        rf"(?:{_TAX})(?: \w{{1,3}})?|sales tax|local tax|state tax|city tax|cgst|sgst|igst|output tax|zawarty podatek|"
        r"enthaltene? (?:mwst|ust)|dont tva|inkl mwst|darin mwst|itbis|service tax",
    ),
    (
        Kind.TOTAL,
        r"total(?: amount| amt| rm| myr| sales?| sale| price| eur| usd| gbp| pln| charge)?|totals|ttl(?: amt| amount)?|"
        r"total value|summe(?: eur)?|gesamt|endbetrag|totale(?: eur| euro)?|suma(?: pln| eur)?|razem(?: pln)?|lacznie|"
        r"totaal(?: eur)?|jumlah(?: rm| keseluruhan)?|итого|итог|ntor|utoro|cyma|всего|сума|всього|toplam|topl|kopa|kopa eur|thanh tien|yhteensa|συνολο|γενικο συνολο|ukupno|skupaj|viso|kokku|totalt|total lei|"
        r"summa|celkem|osszesen|spolu|sum|bal|total general|total ticket|importe total|montant total|total eur(?:o|os)?|soma|total r",
    ),
    (
        Kind.CARD,
        r"visa(?: card| debit| credit| electron)?|master ?card|mastercard|amex|american express|debit(?: card)?|credit(?: card)?|"
        r"maestro|girocard|ec karte|ec cash|kartenzahlung|karte|carte bancaire|carte|cb|tarjeta|carta(?: di credito)?|bancomat|cartao(?: de credito| de debito)?|"
        r"multibanco|pinnen|pin|karta(?: platnicza)?|kad kredit|kad|eftpos|eft|contactless|kontaktlos|sans contact|paypal|apple pay|"
        r"google pay|touch n go|tng|grabpay|boost|e ?wallet|bankkarte|bankomat|картка|карта|kredi karti|kartica|bankcard|card|charge card|"
        r"bank card|dankort|bankkort|betaalpas|κα?ρτα|bankas karte|unionpay|discover|union pay|jcb|maksukortti|kort|kortti",
    ),
    (
        Kind.AMOUNT,
        r"amount(?: rm| usd| eur)?|amt|betrag|montant|importe|importo|valor|bedrag|kwota|amaun|harga|balance|charge|charges|fare|sale|"
        r"sales|purchase|price|preis|prix|precio|prezzo|prijs|cena|zahlung|сумма|tutar|monto|debito|fee|so tien",
    ),
)

# Scripts without word boundaries: found anywhere in the text.
UNSPACED_LABELS: tuple[tuple[Kind, str], ...] = (
    (Kind.COUNT, r"点数|お買上点数|買上点数|合計点数|数量"),
    (Kind.POINTS, r"ポイント|积分"),
    (Kind.CHANGE, r"お釣|おつり|お釣り|釣銭|找零|找赎|거스름"),
    (Kind.TENDERED, r"お預|預り|預かり|現金|现金|현금"),
    (Kind.SUBTOTAL, r"小計|小计|소계"),
    (Kind.NET, r"税抜|対象額|対象|不含税|공급가"),
    (Kind.TAX, r"消費税|内税|外税|税額|税额|税等|부가세"),
    (Kind.DISCOUNT, r"割引|値引|折扣|优惠|할인"),
    (Kind.PAYABLE, r"請求額|ご請求|お支払|支払額|应付|實付|实付|결제금액|받을금액"),
    (Kind.TOTAL, r"合計|合计|総計|总计|總計|総額|합계|총액|รวม"),
    (Kind.CARD, r"クレジット|カード|카드|银行卡"),
)

# Words that are near a label word in spelling, and are something else: they are never "repaired" into a label.
_STRANGERS = """
charge charges exchange exchanged orange range chance hotel metal local vital summer comme sauce tender tenders
cashier cashiers casher cashback taxi text item tea tip top pay cafe carte cart card care bread board beer bier
bar barley price rice spice slice prize pride paint point print prints pound round found sound mound sale salt
sales soda sauna sugar suman sumac supreme summit dual deal meal seal total totem netto nestle nett nuts service
servings serving surface voucher produce product products receive receipt receipts recipe code credit edit debit
rabbit remote demise premise person persons persone parson baked bake balance balanced betray bonus bones sconto
scone scones promo prompt primo invoice notice office coffee toffee return returned returns customer custom
costume gratis terms thermos vat bat hat retour tour detour resto restaurant restaurants rest best test numero
nombre number member members menu mane mano manor major saved salad shaved amount mount account discount counter
count country county court mart market smart summary suite juice sushi tuna tunai tunas contact contacts
container content cabbage carrot karat kart corte montana importer imported impostor bedroom better butter
batter bitter letter cadeau cable payer paper player quality quantity quantum article articles bayan bayar bakso
"""
STRANGERS = frozenset(_STRANGERS.split())
